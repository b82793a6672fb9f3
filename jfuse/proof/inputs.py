"""Inputs for comparisons: seeded draws at several scales, with sizes for the dimensions that are open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import Dim, is_known, substitute_dim, symbols_of
from jfuse.ir.graph import Const, Graph, Signature
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.proof.index_ranges import IndexRange
from jfuse.proof.ranges import drawn_ranges
from jfuse.proof.size_needs import size_needs

_SCALES = (1.0, 0.1, 4.0)
LONGER = "longer sizes"
"""The name of the call at `longer_sizes`."""
_LONGEST, _LONG, _ROWS = 67, 9, 17  # rows and steps where that is cheap, else steps and rows
_CHEAP = (2**16, 2**27)  # elements of the inputs; of weights times sizes
_DEAR = (2**22, 2**33)
_LARGEST_SIZE = 512  # what no network needs to leave a pixel of an image
_NEAR = 64  # sizes that are tried one by one
_MOST_BYTES = 2**30  # of an input; drawing takes several times as much
_LARGEST_INTEGER = 100  # for integer inputs that index nothing


@dataclass(frozen=True)
class CallInputs:
    """One call of a row: the signature, its inputs, and what they are ("random", "given", or the kind of edge)."""

    key: str
    inputs: Mapping[str, np.ndarray]
    kind: str = "random"


def open_sizes(types: Iterable[TensorType]) -> list[str]:
    """The names of the sizes that types leave open."""
    return sorted({s for t in types for d in t.shape for s in symbols_of(d)})


def input_types(graph: Graph) -> list[TensorType]:
    """The types of a graph's inputs."""
    return [v.type for v in graph.inputs]


def size_choices(graph: Graph, fixed: Mapping[str, int] | None = None) -> list[dict[str, int]]:
    """Two independent sizes for each open dimension, 1 among them; a single empty choice where all is static.

    Larger ones where the operators of the graph need that. fixed: sizes that are not to choose.
    """
    fixed = dict(fixed or {})
    symbols = [name for name in open_sizes(input_types(graph)) if name not in fixed]
    if not symbols:
        return [fixed]
    choices = [{s: 3 + i for i, s in enumerate(symbols)}, {s: 1 + i for i, s in enumerate(symbols)}]
    return [_filled(graph, sizes | fixed, fixed) for sizes in choices]


def longer_sizes(graph: Graph, fixed: Mapping[str, int]) -> dict[str, int] | None:
    """Larger sizes than `size_choices` has, for one more call: more than 64 of each, or 17 rows and 9 and more steps.

    None where nothing is open, or where that many would take seconds.
    """
    types = input_types(graph)
    symbols = [name for name in open_sizes(types) if name not in fixed]
    rows = {str(t.shape[0]) for t in types if t.shape}
    weights = {id(a): a.array.size for e in all_eqns(graph) for a in e.inputs if isinstance(a, Const)}
    longest = {s: _LONGEST + 2 * i for i, s in enumerate(symbols)}
    long = {s: _ROWS if s in rows else _LONG + 2 * i for i, s in enumerate(symbols)}
    for sizes, (elements, work) in ((longest, _CHEAP), (long, _DEAR)) if symbols else ():
        filled = _filled(graph, sizes | dict(fixed), fixed)
        drawn = sum(prod(concrete(t.shape, filled)) for t in types)
        if drawn <= elements and sum(weights.values()) * prod(filled[s] for s in symbols) <= work:
            return filled
    return None


def long_sizes(graph: Graph) -> dict[str, int]:
    """A size for each open dimension at which loops over it run turns of several steps, and have steps left over."""
    # No turn of `FORMS` has more than 16 steps; their numbers are even, so an odd number leaves some.
    sizes = {s: 17 + 2 * i for i, s in enumerate(open_sizes(input_types(graph)))}
    return _filled(graph, sizes, ())


def _filled(graph: Graph, sizes: dict[str, int], fixed: Collection[str]) -> dict[str, int]:
    """The least sizes from the given ones on at which operands fit, and windows and rows that are read are there.

    A network that halves an image and joins what it enlarges with what it halved takes even sizes only. The given ones
    where no larger ones help, as where those that are fixed do not fit.
    """
    open_, grown = [g for g in size_needs(graph) if _symbols(g.dims) and _symbols(g.dims) <= sizes.keys()], dict(sizes)
    for turn in range(_LARGEST_SIZE):
        numbers = [(need, [int(substitute_dim(d, grown)) for d in need.dims]) for need in open_]
        wrong = [
            (need, _symbols(need.smaller(known)).difference(fixed)) for need, known in numbers if not need.holds(known)
        ]
        if not wrong:
            return grown
        if not any(names for _, names in wrong):
            break
        # Windows over sound are hundreds of samples long; sizes that agree are not far away, and none is left out.
        far = frozenset().union(*(names for need, names in wrong if not need.agree)) if turn > _NEAR else frozenset()
        for name in frozenset().union(*(names for _, names in wrong)):
            grown[name] += grown[name] // 8 if name in far else 1
    return sizes


def _symbols(dims: Sequence[Dim]) -> frozenset[str]:
    return frozenset().union(*map(symbols_of, dims))


def draws(signature: Signature, sizes: Mapping[str, int], seed: int, count: int = 3) -> Iterator[dict[str, np.ndarray]]:
    """`count` sets of inputs by name, each at another scale, within the ranges that their consumers take."""
    generator = np.random.default_rng(seed)
    yield from _drawn(signature, sizes, ((number, generator) for number in range(count)))


def draws_apart(
    signature: Signature, sizes: Mapping[str, int], seed: int, numbers: Iterable[int]
) -> Iterator[dict[str, np.ndarray]]:
    """As `draws`. Each set depends on its number alone, so any of them can be left out."""
    yield from _drawn(signature, sizes, ((number, np.random.default_rng((seed, number))) for number in numbers))


def _drawn(
    signature: Signature, sizes: Mapping[str, int], numbers: Iterable[tuple[int, np.random.Generator]]
) -> Iterator[dict[str, np.ndarray]]:
    """The sets of these numbers, each from the generator beside it."""
    _need_room(signature, sizes)
    ranges = drawn_ranges(signature.graph)
    for number, generator in numbers:
        scale = _SCALES[number % len(_SCALES)]
        yield {
            name: _within(generator, var.type, sizes, ranges[var])
            if var in ranges and (var.type.dtype.is_integer or var.type.dtype.is_float)
            else draw(generator, var.type, sizes, scale, _LARGEST_INTEGER)
            for name, var in zip(signature.input_names, signature.graph.inputs, strict=False)  # states come last
        }


def _need_room(signature: Signature, sizes: Mapping[str, int]) -> None:
    """Raise JfuseError where the inputs of one call are too large to be drawn, as a small file may state them."""
    for name, var in zip(signature.input_names, signature.graph.inputs, strict=False):
        size = prod(int(d) for d in concrete(var.type.shape, sizes)) * var.type.dtype.numpy.itemsize
        if size > _MOST_BYTES:
            raise JfuseError(
                f"the input {name!r} of signature {signature.key!r} is too large to be drawn",
                expected=f"at most {_MOST_BYTES:,} bytes",
                found=f"{var.type}, {size:,} bytes",
                remedy="inputs= of your own (the command line: --inputs), or other sizes=",
            )


def _within(generator: np.random.Generator, of: TensorType, sizes: Mapping[str, int], taken: IndexRange) -> np.ndarray:
    """One array of numbers of a range, all of them as likely."""
    least, end = taken.ends(sizes)
    shape = concrete(of.shape, sizes)
    if of.dtype.is_float:
        return generator.uniform(least, end, shape).astype(of.dtype.numpy)
    return generator.integers(least, end, shape).astype(of.dtype.numpy)


def draw(
    generator: np.random.Generator, of: TensorType, sizes: Mapping[str, int], scale: float, limit: int
) -> np.ndarray:
    """One array: floats normal with standard deviation `scale`, integers in [0, limit), bools and short texts."""
    shape = concrete(of.shape, sizes)
    if of.dtype is DType.string:
        words = np.array([b"", b"a", b"jfuse", "größe".encode()], object)
        return np.asarray(words[generator.integers(0, len(words), shape)], object)
    if of.dtype is DType.bool:
        return generator.integers(0, 2, shape).astype(np.bool_)
    if of.dtype.is_integer:
        return generator.integers(0, limit, shape).astype(of.dtype.numpy)
    return (generator.standard_normal(shape) * scale).astype(of.dtype.numpy)


def concrete(shape: Sequence[Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A shape with sizes put in for its symbols."""
    dims = [substitute_dim(d, sizes) for d in shape]
    assert all(is_known(d) for d in dims)
    return tuple(int(d) for d in dims)
