"""Edge inputs of a signature: zeros, ones, the largest and smallest numbers, ids at both ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import ml_dtypes
import numpy as np

from jfuse.ir.graph import Signature, Var
from jfuse.ir.types import DType, TensorType
from jfuse.proof.inputs import concrete, draw, draws
from jfuse.proof.plain_integers import ends_of_type, plain_integers
from jfuse.proof.ranges import drawn_ranges
from jfuse.proof.samples import compared_constants

COMPARED = "compared constants"
"""Numbers on both sides of the constants that the graph compares with, where there are any: a limit may be rare."""
FINITE = ("zeros", "ones", "denormals", "largest", "smallest", "maxima", "minima", "one alone", COMPARED)
ODD = ("nan", "infinities")
ONE_INFINITE = "one infinity"
"""One infinite element in the first float input: compared where the reference answers without NaN."""
SELECTING = ("zeros", "ones", "minus ones")
"""Values for which a selection (x > 0, x < 0, x != 0, x > 0.5) may take nothing."""
_EXACT = 2.0**53 - 1  # integers to here are exact in f64
OVERFLOWING = frozenset({"maxima", "minima"})
"""Where a sum may overflow on the way or not, as it is ordered: compared where no side did."""
HUGE = OVERFLOWING | {"largest", "smallest"}
_LOW, _HIGH = frozenset({"zeros", "smallest", "minima", "minus ones"}), frozenset({"ones", "largest", "maxima"})
STEEP = HUGE | {"denormals"}
"""Where a rounding of the input may change the answer as much as any difference between two runners."""


def edge_inputs(
    signature: Signature, sizes: Mapping[str, int], kinds: tuple[str, ...], seed: int
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Inputs by name, one set for each kind of edge, with its kind."""
    ranges = {v: of.ends(sizes) for v, of in drawn_ranges(signature.graph).items()}
    ranges |= {v: ends_of_type(v.type) for v in plain_integers(signature.graph)}
    generator = np.random.default_rng(seed)
    lengths = 0, _lengths(signature, sizes)
    if ONE_INFINITE in kinds:
        yield ONE_INFINITE, _one_infinite(signature, sizes, generator)
    if COMPARED in kinds and (compared := _at_compared(signature, sizes, frozenset(ranges), seed)):
        yield COMPARED, compared
    for kind in kinds:
        if kind in (ONE_INFINITE, COMPARED):
            continue
        yield (
            kind,
            {
                name: _edge(kind, var.type, concrete(var.type.shape, sizes), ranges.get(var, lengths), generator)
                if var not in ranges or not var.type.dtype.is_float
                else _at_ends(kind, var.type, concrete(var.type.shape, sizes), ranges[var])
                for name, var in zip(signature.input_names, signature.graph.inputs, strict=False)
            },
        )


def _one_infinite(
    signature: Signature, sizes: Mapping[str, int], generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """Normal numbers, and a single infinity among them: two of them might cancel out."""
    named = zip(signature.input_names, signature.graph.inputs, strict=False)
    drawn = {name: draw(generator, var.type, sizes, 1.0, 2) for name, var in named}
    floats = (array for array in drawn.values() if array.dtype.kind == "f" and array.size)
    first = next(floats, None)
    if first is not None:
        first.reshape(-1)[generator.integers(first.size)] = np.inf
    return drawn


def _at_compared(
    signature: Signature, sizes: Mapping[str, int], limited: frozenset[Var], seed: int
) -> dict[str, np.ndarray]:
    """As many compared constants, and numbers next to them, as there is room for; {} if there are none.

    limited: inputs with ranges of their own. They, and those that compare nothing, are as in a random call.
    """
    generator = np.random.default_rng(seed)
    plain = plain_integers(signature.graph)
    floats, integers = (compared_constants((signature.graph,), i) for i in (False, True))
    (drawn,) = draws(signature, sizes, seed, 1)
    is_near = False
    for name, var in zip(signature.input_names, signature.graph.inputs, strict=False):
        array = drawn[name]
        is_float = array.dtype.kind == "f" and var not in limited
        most = _large(array.dtype) if is_float else _EXACT
        compared = floats if is_float else integers if var in plain else []
        constants = np.array([c for c in compared if abs(c) <= most])
        if constants.size and array.size:
            steps = np.maximum(np.abs(constants), 1.0) * 1e-3 if is_float else 1.0
            near = generator.permutation((constants + steps * np.array([[-1], [0], [1]])).reshape(-1))
            drawn[name] = _within_type(np.resize(near, array.shape), array.dtype)
            is_near = True
    return drawn if is_near else {}


def _within_type(numbers: np.ndarray, dtype: np.dtype[np.generic]) -> np.ndarray:
    """The numbers in a dtype, those beyond its ends at them."""
    facts = ml_dtypes.finfo(dtype) if dtype.kind == "f" else ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    return np.asarray(np.clip(numbers, float(facts.min), float(facts.max)).astype(dtype))


def _lengths(signature: Signature, sizes: Mapping[str, int]) -> int:
    """One more than the longest axis of all inputs: an integer may be the length of a sequence."""
    shapes = [concrete(v.type.shape, sizes) for v in signature.graph.inputs]
    return 1 + max((d for shape in shapes for d in shape), default=1)


def _edge(
    kind: str, of: TensorType, shape: tuple[int, ...], ends: tuple[int, int], generator: np.random.Generator
) -> np.ndarray:
    """One array.   ends: the least integer, and the one after the greatest"""
    if of.dtype is DType.string:
        return np.full(shape, b"" if kind == "zeros" else b"a", object)
    dtype = of.dtype.numpy
    if kind == "one alone":  # a mask of one step, one id among zeros, one number among zeros
        array = np.zeros(shape, dtype)
        array[(slice(None),) * (len(shape) - 1) + (slice(0, 1),) if shape else ()] = 1
        return array
    if of.dtype is DType.bool:
        return np.full(shape, kind not in ("zeros", "denormals", "smallest", "minima", "minus ones"))
    if of.dtype.is_integer:
        return np.full(shape, _integer(kind, of, *ends), dtype)
    if kind == "nan" or kind == "infinities":
        return _among(generator, shape, (np.nan,) if kind == "nan" else (np.inf, -np.inf)).astype(dtype)
    if of.dtype in (DType.c64, DType.c128):
        return np.full(shape, {"ones": 1.0, "minus ones": -1.0}.get(kind, 0.0), dtype)
    return _floats(kind, dtype, shape, generator)


def _at_ends(kind: str, of: TensorType, shape: tuple[int, ...], ends: tuple[int, int]) -> np.ndarray:
    """Floats that their consumers take within a range only: its middle, or one of its ends."""
    least, most = ends
    at = least if kind in _LOW else most if kind in _HIGH else (least + most) / 2
    return np.full(shape, at, of.dtype.numpy)


def _integer(kind: str, of: TensorType, least: int, end: int) -> int:
    """Ids and lengths at both ends; for a quantized tensor the ends of its type."""
    limits = ml_dtypes.iinfo(of.dtype.numpy)  # type: ignore[no-untyped-call]
    if of.quantization is not None:
        return {"maxima": int(limits.max), "minima": int(limits.min)}.get(kind, (*of.quantization.zero_point, 0)[0])
    last = min(end - 1, int(limits.max))
    chosen = {"ones": max(least, min(1, last)), "largest": last, "maxima": last, "smallest": least, "minima": least}
    return chosen.get(kind, max(least, min(0, last)))


def _floats(
    kind: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], generator: np.random.Generator
) -> np.ndarray:
    facts = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    large, most = _large(dtype), float(facts.max)
    if kind == "denormals":
        steps = generator.integers(-100, 101, shape).astype(np.float64)
        return np.asarray(steps * float(facts.smallest_subnormal)).astype(dtype)
    values = {"ones": 1.0, "minus ones": -1.0, "largest": large, "smallest": -large, "maxima": most, "minima": -most}
    return np.full(shape, values.get(kind, 0.0)).astype(dtype)


def _large(dtype: np.dtype[np.generic]) -> float:
    """A large number whose square and cube are finite."""
    return float(2.0 ** (int(ml_dtypes.finfo(dtype).maxexp) // 3))  # type: ignore[no-untyped-call]


def _among(generator: np.random.Generator, shape: tuple[int, ...], values: tuple[float, ...]) -> np.ndarray:
    """Normal numbers, about one in four of them one of the values, and at least one."""
    array = generator.standard_normal(shape)
    chosen = generator.random(shape) < 0.25
    if chosen.size:
        chosen.reshape(-1)[0] = True
    return np.where(chosen, generator.choice(values, shape), array)
