"""Reductions, windows and sorts of StableHLO: recognizes their regions by running them on numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax import lax
from jaxlib.mlir import ir

from jfuse.base.errors import ImportFailed
from jfuse.frontends.stablehlo.regions import operator_of_two
from jfuse.frontends.stablehlo.rules import DIRECT, ModuleReader, reads
from jfuse.frontends.stablehlo.shapes import integers
from jfuse.frontends.stablehlo.values import as_array, dtype_of

_REDUCE: Mapping[str, tuple[Callable[..., Any], float | None]] = {
    "add": (lax.reduce_sum, 0.0),
    "multiply": (lax.reduce_prod, 1.0),
    "maximum": (lax.reduce_max, -np.inf),
    "minimum": (lax.reduce_min, np.inf),
    "and": (lax.reduce_and, True),
    "or": (lax.reduce_or, False),
}
"""jax's reduction, and its neutral element."""
_TWO: Mapping[str, Callable[..., Any]] = {"add": lax.add, "multiply": lax.mul, "maximum": lax.max, "minimum": lax.min}
_RUNNING: Mapping[str, Callable[..., Any]] = {
    "add": lax.cumsum,
    "multiply": lax.cumprod,
    "maximum": lax.cummax,
    "minimum": lax.cummin,
    "logaddexp": lax.cumlogsumexp,
}
_CHOICES = {"GE": lax.ge_p, "LE": lax.le_p}


@reads("stablehlo.reduce")
def _reduce(reader: ModuleReader, op: Any, *operands: Any) -> Any:
    axes = tuple(integers(op, "dimensions"))
    half = len(operands) // 2
    arrays = [as_array(o) for o in operands[:half]]
    name = operator_of_two(op.regions[0])
    if half == 1 and (found := _REDUCE.get(name)):
        reduce, neutral = found
        result = reduce(arrays[0], axes)
        if _is(operands[1], neutral):
            return result
        return _combined(name, result, operands[1])
    if half == 2 and len(axes) == 1 and (best := _first_best(reader, op)):
        values, _ = arrays
        index = best(values, axes[0], np.int32)
        picked = (lax.reduce_max if best is lax.argmax else lax.reduce_min)(values, axes)
        return [picked, index]
    return lax.reduce(arrays, list(map(as_array, operands[half:])), _combination(reader, op), axes)


def _combination(reader: ModuleReader, op: Any) -> Callable[[Any, Any], list[Any]]:
    """Function that applies a region to two lists of scalars."""
    return lambda x, y: list(map(as_array, reader.region(op.regions[0], [*x, *y])))


def _is(value: Any, neutral: Any) -> bool:
    """Whether a reduction begins with its neutral element."""
    if not isinstance(value, np.ndarray) or value.ndim:
        return False
    if np.isinf(neutral) and value.dtype.kind in "iu":
        limits = np.iinfo(value.dtype)
        return bool(value == (limits.max if neutral > 0 else limits.min))
    return bool(value == neutral)


def _combined(name: str, x: Any, start: Any) -> Any:
    two = {**_TWO, "and": lax.bitwise_and, "or": lax.bitwise_or}[name]
    return two(x, lax.broadcast(start, x.shape))


def _first_best(reader: ModuleReader, op: Any) -> Callable[..., Any] | None:
    """argmax or argmin, where a region takes the better of two values and, of equals, the one of the lower index."""
    (block,) = op.regions[0].blocks
    kinds = [np.dtype(_scalar_type(a)) for a in block.arguments]
    if kinds[1].kind not in "iu":
        return None

    def picked(x: float, i: int, y: float, j: int) -> tuple[float, int]:
        typed = [np.asarray(v, k) for v, k in zip((x, i, y, j), kinds, strict=True)]
        value, index = (np.asarray(v) for v in reader.on_numbers(op.regions[0], typed))
        return float(value), int(index)

    for best, better, worse in ((lax.argmax, 3, 2), (lax.argmin, 2, 3)):
        tried = [(better, 7, worse, 1), (worse, 1, better, 7), (better, 7, better, 5), (better, 5, better, 7)]
        if [picked(*t) for t in tried] == [(better, 7), (better, 7), (better, 5), (better, 5)]:
            return best
    return None


def _scalar_type(value: Any) -> np.dtype[Any]:
    return dtype_of(ir.RankedTensorType(value.type).element_type)


@reads("stablehlo.reduce_window")
def _reduce_window(reader: ModuleReader, op: Any, *operands: Any) -> Any:
    name = operator_of_two(op.regions[0]) or ("logaddexp" if _adds_exponents(reader, op) else "")
    half = len(operands) // 2
    x, start = operands[0], operands[half]
    rank = len(x.shape)
    sizes = integers(op, "window_dimensions")
    strides, dilations, base = (
        integers(op, n) or [1] * rank for n in ("window_strides", "window_dilations", "base_dilations")
    )
    padding = padding_of(op, rank)
    is_running = strides == dilations == base == [1] * rank and half == 1 and name in _RUNNING
    if is_running and (running := _running(x.shape, sizes, padding)):
        axis, reverse = running
        return _RUNNING[name](x, axis, reverse=reverse)
    if half == 1 and name in _TWO and isinstance(start, np.ndarray):
        return lax.reduce_window(x, start[()], _TWO[name], sizes, strides, padding, base, dilations)
    arrays, first = (list(map(as_array, values)) for values in (operands[:half], operands[half:]))
    return lax.reduce_window(arrays, first, _combination(reader, op), sizes, strides, padding, base, dilations)


@reads("stablehlo.select_and_scatter")
def _select_and_scatter(reader: ModuleReader, op: Any, x: Any, source: Any, start: Any) -> Any:
    """The gradient of a pool."""
    select, scatter = (operator_of_two(region) for region in op.regions)
    if select not in _CHOICES or scatter != "add" or not _is(start, 0.0):
        raise ImportFailed("a select_and_scatter of StableHLO that is no gradient of a pool", remedy=DIRECT)
    rank = len(x.shape)
    return lax.select_and_scatter_add_p.bind(
        source,
        x,
        select_prim=_CHOICES[select],
        window_dimensions=tuple(integers(op, "window_dimensions")),
        window_strides=tuple(integers(op, "window_strides") or [1] * rank),
        padding=tuple(padding_of(op, rank)),
    )


def _adds_exponents(reader: ModuleReader, op: Any) -> bool:
    """Whether a region of two floats is the logarithm of the sum of their exponentials."""
    (block,) = op.regions[0].blocks
    if len(block.arguments) != 2 or _scalar_type(block.arguments[0]).kind != "f":
        return False
    kind = _scalar_type(block.arguments[0])
    for pair in ((0.5, -1.25), (-2.0, 3.0), (1.5, 1.5)):
        (total,) = reader.on_numbers(op.regions[0], [np.asarray(v, kind) for v in pair])
        if not np.allclose(np.float64(total), np.logaddexp(*pair), rtol=1e-2 if kind.itemsize < 4 else 1e-5):
            return False
    return True


def _running(shape: Sequence[Any], sizes: Sequence[int], padding: Sequence[tuple[int, int]]) -> tuple[int, bool] | None:
    """The axis along which windows hold all elements before each, or (True) after each; None for other windows."""
    along = [i for i, size in enumerate(sizes) if size != 1]
    padded = [i for i, pair in enumerate(padding) if any(pair)]
    if len(along) != 1 or padded != along or shape[along[0]] != sizes[along[0]]:
        return None
    (axis,) = along
    low, high = padding[axis]
    return (axis, low == 0) if sorted((low, high)) == [0, sizes[axis] - 1] else None


def padding_of(op: Any, rank: int) -> list[tuple[int, int]]:
    """The padding of a window's axes, before and after."""
    if "padding" not in op.attributes:
        return [(0, 0)] * rank
    pairs = np.array(op.attributes["padding"]).reshape(rank, 2)
    return [(int(low), int(high)) for low, high in pairs]


@reads("stablehlo.sort")
def _sort(reader: ModuleReader, op: Any, *operands: Any) -> Any:
    axis = int(op.attributes["dimension"])
    arrays = [as_array(o) for o in operands]
    kinds = [a.dtype for a in arrays]
    keys, descending = _order(reader, op, kinds)
    if not descending:
        return lax.sort(arrays, dimension=axis, num_keys=keys, is_stable=True)
    if keys != 1 or kinds[0].kind not in "f":
        raise ImportFailed("a sort of StableHLO from the largest of integers, or by several keys")
    _, *sorted_ = lax.sort([lax.neg(arrays[0]), *arrays], dimension=axis, num_keys=1, is_stable=True)
    return sorted_


def _order(reader: ModuleReader, op: Any, kinds: Sequence[np.dtype[Any]]) -> tuple[int, bool]:
    """How many operands a comparator compares, and whether the larger come first."""

    def before(pairs: Sequence[tuple[int, int]]) -> bool:
        typed = [np.asarray(v, k) for pair, k in zip(pairs, kinds, strict=True) for v in pair]
        return bool(np.asarray(reader.on_numbers(op.regions[0], typed)[0]))

    count = len(kinds)
    rising = [before([(1, 1)] * i + [(0, 1)] + [(1, 1)] * (count - i - 1)) for i in range(count)]
    falling = [before([(1, 1)] * i + [(1, 0)] + [(1, 1)] * (count - i - 1)) for i in range(count)]
    for compared, other, descending in ((rising, falling, False), (falling, rising, True)):
        keys = sum(compared)
        if keys and compared[:keys] == [True] * keys and not any(other):
            return keys, descending
    raise ImportFailed("a sort of StableHLO by a comparison of its own")
