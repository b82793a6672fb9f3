"""Sizes as run-time tensors: shape tensors, and tensors made for symbolic dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, Shape, computed, is_known, multiple, product, same, substitute_dim, symbol, symbols_of
from jfuse.ir.graph import Var
from jfuse.ir.trace import active_trace
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array, TflOp
from jfuse.lowering.rule_tools.behind import eqns_behind
from jfuse.lowering.rule_tools.query import rank


def shape_tensor(dims: Sequence[Dim], sources: Sequence[Array]) -> Array:
    """A shape as i32[rank]: a constant where every dimension is a number, else computed in the active trace.

    Each symbol is read from a Var among `sources` that has it in a dimension (constants have none); raises LowerError
    where none has.
    """
    if all(is_known(d) for d in dims):
        return np.asarray([int(d) for d in dims], np.int32)
    return ops.pack(*(size_tensor(d, sources) for d in dims))


def size_tensor(dim: Dim, sources: Sequence[Array]) -> Array:
    """A dimension as i32[], computed as `shape_tensor` does it."""
    if is_known(dim):
        return np.asarray(int(dim), np.int32)
    dim = substitute_dim(dim, active_trace().sizes)
    tensor = _existing(dim)
    if tensor is None:
        tensor = _read(dim, sources)
    return _evaluated(dim, {n: _symbol(n, sources) for n in sorted(symbols_of(dim))}) if tensor is None else tensor


def shaped(x: Array, target: Shape, *sources: Array) -> Array:
    """x in the shape `target`, from a constant where one size at most is open. `sources` as for `shape_tensor`."""
    if rank(x) == len(target) and all(same(d, e) for d, e in zip(x.shape, target, strict=True)):
        return x
    open_ = sum(not is_known(d) for d in target)
    # Where the number of elements is not known to stay, -1 would be what is left over, and not the size that is meant.
    if open_ == 0 or (open_ == 1 and 0 not in target and same(product(target), product(tuple(x.shape))) is True):
        return ops.reshape(x, np.array([int(d) if is_known(d) else -1 for d in target], np.int32))
    return ops.reshape(x, shape_tensor(target, [x, *sources]))


def counted(count: Dim, *sources: Array) -> Array:
    """0, 1, … up to `count`, exclusive, as i32[count]. `sources` as for `shape_tensor`."""
    if is_known(count):
        return np.arange(int(count), dtype=np.int32)
    return ops.range_(np.int32(0), size_tensor(count, sources), np.int32(1))


def zeros(shape: Shape, dtype: DType, sources: Sequence[Array]) -> Array:
    """Zeros of a shape that may be symbolic: a constant, or FILL. `sources` as for `shape_tensor`."""
    sizes = shape_tensor(shape, sources)
    return ops.fill(sizes, np.zeros((), dtype.numpy))


def _existing(dim: Dim) -> Array | None:
    """A scalar of the active trace that is known to be `dim`, so that each size is computed once."""
    trace = active_trace()
    scalars = ((v, value.item()) for v, value in trace.known_scalars.items() if v.type.dtype is DType.i32)
    return next((v for v, value in scalars if same(substitute_dim(value, trace.sizes), dim)), None)


def _read(dim: Dim, sources: Sequence[Array]) -> Array | None:
    """A dimension that one of the sources has."""
    for source, axis, size in _dimensions(sources):
        if same(size, dim):
            return size_of(source, axis)
    return None


def _symbol(name: str, sources: Sequence[Array]) -> Array:
    """A symbol, read or solved for: n where a source has 2n + 1."""
    tensor = _existing(symbol(name))
    # What the sources were made of had more sizes: of an image that is halved only the image has its own.
    for tensors in (sources, _behind(sources)):
        if tensor is None:
            tensor = _read_or_solved(name, tensors)
    if tensor is not None:
        return tensor
    raise LowerError(
        f"the size {name} is needed at run time, and no tensor at hand has it as a dimension",
        found=", ".join(str(s.type) for s in sources if isinstance(s, Var)),
    )


def _read_or_solved(name: str, sources: Iterable[Array]) -> Array | None:
    of_sources = list(_dimensions(sources))
    for source, axis, size in of_sources:
        if same(size, symbol(name)):
            return size_of(source, axis)
    for source, axis, size in of_sources:
        if (parts := multiple(size)) is not None and parts[0] == name:
            _, factor, constant = parts
            rest = ops.sub(size_of(source, axis), np.int32(constant))
            return rest if factor == 1 else ops.floor_div(rest, np.int32(factor))
    return None


def _behind(sources: Iterable[Array]) -> Iterator[Var]:
    """Yield the variables that the sources were computed from in the active trace."""
    for source in sources:
        for eqn in eqns_behind(source, lambda e: e.inputs):
            yield from (a for a in eqn.inputs if isinstance(a, Var))


def _dimensions(sources: Iterable[Array]) -> Iterator[tuple[Var, int, Dim]]:
    """Each dimension of the Vars among the sources, with its axis."""
    for source in sources:
        if isinstance(source, Var):
            for axis, size in enumerate(active_trace().resolve(source.type).shape):
                yield source, axis, size


def size_of(x: Array, axis: int) -> Array:
    """The size of one dimension as i32[]: a constant, or SHAPE and STRIDED_SLICE."""
    place = np.asarray([axis], np.int32)
    return ops.strided_slice(ops.shape(x), place, place + 1, np.ones(1, np.int32), shrink_axis_mask=1)


def _evaluated(dim: Dim, symbols: Mapping[str, Array]) -> Array:
    result: Any = computed(str(dim), {name: _Size(value) for name, value in symbols.items()}, _FUNCTIONS)
    return result.value


class _Size:
    """An i32[] tensor under the arithmetic that printed dimensions use."""

    def __init__(self, value: Array) -> None:
        self.value = value

    def __add__(self, other: Any) -> _Size:
        return _applied(ops.add, self, other)

    def __sub__(self, other: Any) -> _Size:
        return _applied(ops.sub, self, other)

    def __rsub__(self, other: Any) -> _Size:
        return _applied(ops.sub, other, self)

    def __mul__(self, other: Any) -> _Size:
        return _applied(ops.mul, self, other)

    def __pow__(self, power: int) -> _Size:
        result = self
        for _ in range(power - 1):
            result = result * self
        return result

    def __neg__(self) -> _Size:
        return _applied(ops.sub, 0, self)

    __radd__ = __add__
    __rmul__ = __mul__


def _applied(op: TflOp, x: Any, y: Any) -> _Size:
    return _Size(op(*(v.value if isinstance(v, _Size) else np.asarray(v, np.int32) for v in (x, y))))


_FUNCTIONS = {
    "floordiv": partial(_applied, ops.floor_div),
    "mod": partial(_applied, ops.floor_mod),
    "max": partial(_applied, ops.maximum),
    "min": partial(_applied, ops.minimum),
}
