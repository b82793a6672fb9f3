"""Arithmetic on axes and dimensions for the layout ops, where sizes may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import Dim, Shape, floor_divided, is_known, product, same
from jfuse.ir.trace import active_trace, equate_operands, is_tracing


def from_front(axis: int, rank: int) -> int:
    """`axis` counted from the front; raises TypeMismatch where the rank has no such axis."""
    if not -rank <= axis < rank:
        raise TypeMismatch("there is no such axis", expected=f"from {-rank} to {rank - 1}", found=axis)
    return axis % rank


def axes_from_front(axes: Any, rank: int) -> tuple[int, ...]:
    """Static axes, one or several, counted from the front; raises TypeMismatch where data decides them (None)."""
    if axes is None:
        raise TypeMismatch("the axes depend on data", expected="axes that are known")
    return tuple(from_front(a, rank) for a in (axes if isinstance(axes, tuple) else (axes,)))


def with_dim(shape: Shape, axis: int, *dims: Dim) -> Shape:
    """`shape` with the dimension at `axis` replaced by those given, none for leaving it out."""
    return (*shape[:axis], *dims, *shape[axis + 1 :])


def agreed(d: Dim, e: Dim) -> Dim:
    """The one dimension that two operands must share; open symbols are equated in the active trace.

    Equated here because the tracer itself aligns operands at their last axes, as broadcasting does.
    """
    equal = same(d, e)
    if equal is False:
        raise TypeMismatch("two operands differ in a dimension that they must share", expected=d, found=e)
    if equal is None and is_tracing():
        active_trace().equate(d, e)
    return d


def agreed_where_broadcast(*shapes: Sequence[Dim]) -> None:
    """Equate the open symbols, in the active trace, on which shapes that must broadcast disagree."""
    if is_tracing():
        equate_operands(active_trace(), shapes)


def resolved_shape(shape: Shape, target: Sequence[Dim]) -> Shape:
    """`target` of a reshape with its -1 computed; raises TypeMismatch where the sizes are known to differ."""
    unknown = [i for i, d in enumerate(target) if same(d, -1)]
    if len(unknown) > 1:
        raise TypeMismatch("at most one dimension of a new shape may be -1", found=tuple(target))
    size = product(shape)
    if unknown:
        rest = product(with_dim(tuple(target), unknown[0]))
        if same(rest, 0):
            raise TypeMismatch("the -1 of a new shape cannot be computed beside a dimension of 0", found=tuple(target))
        target = with_dim(tuple(target), unknown[0], floor_divided(size, rest) if is_known(rest) else size // rest)
    sizes = product(tuple(target)), size
    may_be_none = any(same(n, 0) for n in sizes) and not all(map(is_known, sizes))  # symbols count as 1 or more
    if same(*sizes) is False and not may_be_none:
        raise TypeMismatch("a reshape keeps the number of elements", expected=size, found=tuple(target))
    return tuple(target)
