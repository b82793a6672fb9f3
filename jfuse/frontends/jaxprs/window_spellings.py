"""Reductions by a function of two elements, over axes and windows, and gradients of pools, in plain jax."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jax_core

from jfuse.base.errors import LowerError
from jfuse.frontends.jaxprs.parts import closed_jaxpr
from jfuse.frontends.jaxprs.spellings import spells
from jfuse.ir.dims import is_known

_LARGEST_WINDOW = 64  # elements, each of which is a slice
Values = Sequence[Any]
Combine = Callable[[Values, Values], Values]


def _combine(jaxpr: Any, consts: Values, rank: int) -> Combine:
    """The function of a jaxpr of scalars on arrays of this rank."""
    closed = closed_jaxpr(jaxpr)
    function = jax_core.jaxpr_as_fun(jax_core.ClosedJaxpr(closed.jaxpr, consts or closed.consts))
    for _ in range(rank):
        function = jax.vmap(function)
    return lambda x, y: function(*x, *y)


@spells("reduce")
def _reduce(*operands: Any, jaxpr: Any, dimensions: Sequence[int], consts: Values = (), **_: Any) -> Any:
    """Arrays and as many first values -> arrays without the dimensions, reduced in the order of elements."""
    count = len(operands) // 2
    arrays, first = list(operands[:count]), operands[count:]
    for axis in sorted(dimensions, reverse=True):
        arrays = _over_axis(arrays, axis, jaxpr, consts, first)
    rank = arrays[0].ndim
    starts = [jnp.broadcast_to(value, arrays[0].shape) for value in first]
    return list(_combine(jaxpr, consts, rank)(starts, arrays))


def _over_axis(arrays: Values, axis: int, jaxpr: Any, consts: Values, first: Values) -> list[Any]:
    """Neighbours are combined until one element is left."""
    combine = _combine(jaxpr, consts, arrays[0].ndim)
    size = arrays[0].shape[axis]
    if not is_known(size):
        raise LowerError("a reduction by a function of its own over an open size", remedy="fix the size of the axis")
    if size == 0:
        shape = [d for i, d in enumerate(arrays[0].shape) if i != axis]
        return [jnp.broadcast_to(value, shape) for value in first]
    while size > 1:
        pairs = [
            [lax.slice_in_dim(a, start, size - size % 2, 2, axis) for a in arrays] for start in (0, 1)
        ]  # fmt: skip
        joined = list(combine(*pairs))
        if size % 2:
            rest = [lax.slice_in_dim(a, size - 1, size, 1, axis) for a in arrays]
            joined = [lax.concatenate([j, r], axis) for j, r in zip(joined, rest, strict=True)]
        arrays, size = joined, joined[0].shape[axis]
    return [lax.squeeze(a, (axis,)) for a in arrays]


@spells("reduce_xor")
def _reduce_xor(x: Any, *, axes: Sequence[int], **_: Any) -> Any:
    scalar = jax.ShapeDtypeStruct((), x.dtype)
    jaxpr = jax.make_jaxpr(lax.bitwise_xor)(scalar, scalar)
    return _reduce(x, np.zeros((), x.dtype), jaxpr=jaxpr, dimensions=axes)[0]


@spells("reduce_window")
def _reduce_window(*operands: Any, jaxpr: Any, consts: Values = (), **how: Any) -> Any:
    """Arrays and as many first values -> arrays with one result for each window.

    Positions outside of the arrays are left out, as XLA leaves them out: first values need not be neutral.
    """
    count = len(operands) // 2
    arrays, first = operands[:count], operands[count:]
    combine = _combine(jaxpr, consts, arrays[0].ndim)

    def of_those_inside(x: Values, y: Values) -> Values:
        (x_inside, *xs), (y_inside, *ys) = x, y
        both = combine(xs, ys)
        values = (
            jnp.where(x_inside & y_inside, b, jnp.where(x_inside, a, c)) for b, a, c in zip(both, xs, ys, strict=True)
        )
        return [x_inside | y_inside, *values]

    if _reaches_out(**how) and not _is_idempotent(_combine(jaxpr, consts, 0), first):
        inside, *parts = _windows([jnp.ones(arrays[0].shape, bool), *arrays], [False, *first], of_those_inside, how)
        starts = [jnp.broadcast_to(value, inside.shape) for value in first]
        return [jnp.where(inside, c, s) for c, s in zip(combine(starts, parts), starts, strict=True)]
    parts = _windows(arrays, first, combine, how)
    return list(combine([jnp.broadcast_to(value, parts[0].shape) for value in first], parts))


def _reaches_out(*, padding: Sequence[tuple[int, int]], base_dilation: Sequence[int] | None = None, **_: Any) -> bool:
    return any(width != 0 for pair in padding for width in pair) or any(step != 1 for step in base_dilation or ())


def _is_idempotent(combine: Combine, first: Values) -> bool:
    """Whether first values count once, however often they are combined, as far as they are known."""
    if any(isinstance(value, jax.core.Tracer) for value in first):
        return False
    with jax.ensure_compile_time_eval():
        return all(map(np.array_equal, combine(first, first), first))


def _windows(arrays: Values, outside: Values, combine: Combine, how: Mapping[str, Any]) -> list[Any]:
    """The elements of each window combined, in their order: an axis after the other, the last one first.

    Along an axis windows of 1, 2, 4, … elements are combined: a few functions, whatever the size is.
    how: the parameters of jax's `reduce_window`
    """
    rank = arrays[0].ndim
    between, spacing = (list(how.get(name) or [1] * rank) for name in ("base_dilation", "window_dilation"))
    config = [(low, high, step - 1) for (low, high), step in zip(how["padding"], between, strict=True)]
    padded = [lax.pad(a, jnp.asarray(o, a.dtype), config) for a, o in zip(arrays, outside, strict=True)]
    sizes, strides = how["window_dimensions"], how["window_strides"]
    for axis in reversed(range(rank)):
        padded = _along(padded, axis, sizes[axis], spacing[axis], strides[axis], combine)
    return padded


def _along(arrays: Values, axis: int, window: int, spacing: int, stride: int, combine: Combine) -> list[Any]:
    size = arrays[0].shape[axis]
    count = size - (window - 1) * spacing

    def part(values: Values, start: int, length: Any, step: int = 1) -> list[Any]:
        return [lax.slice_in_dim(v, start, start + length, step, axis) for v in values]

    done, width, doubled = 0, 1, list(arrays)  # elements that `total` has, and those that `doubled` has
    total: list[Any] | None = None
    while True:
        if window & width:
            new = part(doubled, done * spacing, count)
            total = new if total is None else list(combine(total, new))
            done += width
        if 2 * width > window:
            break
        length = doubled[0].shape[axis] - width * spacing
        doubled = list(combine(part(doubled, 0, length), part(doubled, width * spacing, length)))
        width *= 2
    assert total is not None
    return total if stride == 1 else part(total, 0, count, stride)


def _has_gaps(eqn: Any) -> bool:
    return any(step != 1 for name in ("window_dilation", "base_dilation") for step in eqn.params[name])


def _with_gaps(name: str, combine: Callable[..., Any], first: Callable[[Any], Any]) -> None:
    def spelling(x: Any, **how: Any) -> Any:
        return _windows([x], [first(x.dtype)], lambda a, b: [combine(a[0], b[0])], how)[0]

    spells(name, when=_has_gaps)(spelling)


def _least(dtype: Any) -> Any:
    return -np.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).min


def _greatest(dtype: Any) -> Any:
    return np.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).max


_with_gaps("reduce_window_max", lax.max, _least)
_with_gaps("reduce_window_min", lax.min, _greatest)
_with_gaps("reduce_window_sum", lax.add, lambda dtype: 0)


def _slices(
    x: Any,
    outside: Any,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
    **_: Any,
) -> Iterator[Any]:
    """For each place in a window, in order, the elements that stand there in all windows."""
    if prod(window_dimensions) > _LARGEST_WINDOW:
        raise LowerError(
            "windows of this form",
            expected=f"up to {_LARGEST_WINDOW} elements in each",
            found=f"windows of {tuple(window_dimensions)}",
        )
    rank = x.ndim
    between, spacing = (list(v or [1] * rank) for v in (base_dilation, window_dilation))
    config = [(low, high, step - 1) for (low, high), step in zip(padding, between, strict=True)]
    x = lax.pad(x, jnp.asarray(outside, x.dtype), config)
    reach = [(w - 1) * s for w, s in zip(window_dimensions, spacing, strict=True)]
    for offset in product(*map(range, window_dimensions)):
        starts = [p * s for p, s in zip(offset, spacing, strict=True)]
        limits = [d - r + start for d, r, start in zip(x.shape, reach, starts, strict=True)]
        yield lax.slice(x, starts, limits, list(window_strides))


@spells("select_and_scatter_add")
def _select_and_scatter_add(
    source: Any,
    operand: Any,
    *,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    **_: Any,
) -> Any:
    """The gradient of a pool: each element of the source goes where its window has the first of its extremes."""
    is_max = select_prim.name == "ge"
    outside = (_least if is_max else _greatest)(operand.dtype)
    parts = list(
        _slices(operand, outside, window_dimensions=window_dimensions, window_strides=window_strides, padding=padding)
    )
    extreme = parts[0]
    for part in parts[1:]:
        extreme = (lax.max if is_max else lax.min)(extreme, part)
    zero = jnp.zeros((), source.dtype)
    padded = [d + low + high for d, (low, high) in zip(operand.shape, padding, strict=True)]
    total, is_free = jnp.zeros(padded, source.dtype), jnp.ones(source.shape, bool)
    for offset, part in zip(product(*map(range, window_dimensions)), parts, strict=True):
        is_first = is_free & (part == extreme)
        is_free = is_free & ~is_first
        reach = [(n - 1) * s + 1 for n, s in zip(source.shape, window_strides, strict=True)]
        config = [(p, d - r - p, s - 1) for p, d, r, s in zip(offset, padded, reach, window_strides, strict=True)]
        total = total + lax.pad(jnp.where(is_first, source, zero), zero, config)
    return lax.slice(
        total, [low for low, _ in padding], [d + low for d, (low, _) in zip(operand.shape, padding, strict=True)]
    )


@spells("select_and_gather_add")
def _select_and_gather_add(tangents: Any, operand: Any, *, select_prim: Any, **how: Any) -> Any:
    """The change of a pool: that of the first of each window's extremes."""
    is_max = select_prim.name == "ge"
    parts = list(_slices(operand, (_least if is_max else _greatest)(operand.dtype), **how))
    changes = list(_slices(tangents, 0, **how))
    extreme, change = parts[0], changes[0]
    for part, other in zip(parts[1:], changes[1:], strict=True):
        is_further = part > extreme if is_max else part < extreme
        extreme, change = jnp.where(is_further, part, extreme), jnp.where(is_further, other, change)
    return change
