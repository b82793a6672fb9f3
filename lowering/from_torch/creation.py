"""Tensors that are made of sizes: of one value, counted, one-hot, triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known
from jfuse.ir.graph import Var
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import broadcast
from jfuse.lowering.from_torch.promotion import as_type, is_tensor
from jfuse.lowering.from_torch.shapes import broadcast_value, lower_unsqueeze
from jfuse.lowering.ops.math.random import EXACT
from jfuse.lowering.rule_tools.place import note, sources
from jfuse.lowering.rule_tools.query import dtype, rank, scalar, type_of
from jfuse.lowering.rule_tools.shape_tensors import counted, shape_tensor, shaped, size_tensor
from jfuse.lowering.rules import DEFAULT, lowers_torch


@lowers_torch("aten.full", "aten.full_like", "aten.new_full")
def lower_full(like: Any, *rest: Any, dtype: DType | None = None) -> Array:
    """One value.   like: a shape, or a tensor of that shape; rest: the value, or shape and value"""
    size, value = _size_and_value(like, rest)
    scalar = as_type(value, dtype or _dtype_like(like, value))
    if isinstance(scalar, Var):
        return broadcast(shaped(scalar, (1,) * len(size)), tuple(size))
    return broadcast_value(np.asarray(scalar), size)


def _size_and_value(like: Any, rest: Sequence[Any]) -> tuple[Sequence[Dim], Any]:
    if isinstance(like, list | tuple):
        return like, rest[0]
    return (rest[0], rest[1]) if len(rest) == 2 else (tuple(like.shape), rest[0])


def _dtype_like(like: Any, value: Any) -> DType:
    if not isinstance(like, list | tuple):
        return type_of(like).dtype
    return DType.bool if isinstance(value, bool) else DType.f32 if isinstance(value, float) else DType.i64


def _of_one_value(value: int, *names: str) -> None:
    def lower(like: Any, size: Sequence[Dim] | None = None, *, dtype: DType | None = None) -> Array:
        kind = dtype or (DType.f32 if isinstance(like, list | tuple) else _dtype_like(like, value))
        shape = like if isinstance(like, list | tuple) else tuple(like.shape) if size is None else size
        return broadcast_value(np.asarray(value, kind.numpy), tuple(shape))

    lower.__doc__ = f"{value} everywhere.   like: a shape, or a tensor of that shape"
    lowers_torch(*(f"aten.{name}" for name in names))(lower)


_of_one_value(0, "zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty")
_of_one_value(1, "ones", "ones_like", "new_ones")


@lowers_torch("aten.fill")
def lower_fill(x: Array, value: Any) -> Array:
    """A value in the shape of x."""
    return lower_full(x, value)


@lowers_torch("aten.scalar_tensor")
def lower_scalar_tensor(value: Any, *, dtype: DType | None = None) -> Array:
    """A number as a tensor."""
    return as_type(value, dtype or DType.f32)


@lowers_torch("aten.arange")
def lower_arange(*bounds: Any, dtype: DType | None = None) -> Array:
    """start, start + step, …   bounds: end; or start and end; or start, end and step"""
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if any(is_tensor(v) for v in (start, end, step)):
        raise LowerError("a range whose bounds are computed", remedy="count to a size of a tensor")
    kind = dtype or (DType.f32 if any(isinstance(v, float) for v in (start, end, step)) else DType.i64)
    if all(isinstance(v, float) or is_known(v) for v in (start, end, step)):
        return np.arange(start, end, step).astype(kind.numpy)
    if any(isinstance(v, float) and not v.is_integer() for v in (start, end, step)):
        raise LowerError("a range of an open size by fractions", remedy="count by integers, then multiply")
    start, end, step = (int(v) if isinstance(v, float) else v for v in (start, end, step))
    count = -((start - end) // step)
    numbers = as_type(counted(count, *sources()), kind)
    if step != 1:
        numbers = ops.mul(numbers, scalar(step, numbers))
    return numbers if is_known(start) and start == 0 else ops.add(numbers, as_type(start, kind))


@lowers_torch("aten.one_hot")
def lower_one_hot(x: Array, classes: int = -1) -> Array:
    """ONE_HOT, of a number of classes that is given."""
    if classes < 0:
        raise LowerError("a one-hot of as many classes as the data says", remedy="num_classes=…")
    hot = ops.one_hot(as_type(x, DType.i32), np.int32(classes), np.int32(1), np.int32(0))
    return as_type(hot, DType.i64)


@lowers_torch("aten.tril")
def lower_tril(x: Array, diagonal: int = 0) -> Array:
    """x, 0 above a diagonal."""
    return _where_column(x, lambda columns, rows: ops.less_equal(columns, rows), diagonal)


@lowers_torch("aten.triu")
def lower_triu(x: Array, diagonal: int = 0) -> Array:
    """x, 0 below a diagonal."""
    return _where_column(x, lambda columns, rows: ops.greater_equal(columns, rows), diagonal)


def _where_column(x: Array, holds: Any, diagonal: int) -> Array:
    rows = shaped(counted(x.shape[-2], x, *sources()), (x.shape[-2], 1), x, *sources())
    columns = counted(x.shape[-1], x, *sources())
    is_inside = holds(columns, ops.add(rows, np.int32(diagonal)) if diagonal else rows)
    if type_of(x).dtype is DType.bool:
        return ops.logical_and(x, is_inside)
    wide = shaped(is_inside, (*[1] * (rank(x) - 2), *is_inside.shape), x, *sources())
    return ops.select_v2(wide, x, scalar(0, x))


# Random numbers that are drawn at each call, by TFLite's generators: of PyTorch's distributions, in another order.

_NOTE = "random numbers are drawn by the runtime: of the same distribution as PyTorch's, but not the same numbers"


def _drawn(name: str, like: Any, type_: DType | None) -> Array:
    """Numbers of TensorFlow's op of a name.   like: a shape, or a tensor of that shape and type"""
    note(_NOTE)
    is_shape = isinstance(like, list | tuple)
    shape = tuple(like) if is_shape else tuple(like.shape)
    numbers = DEFAULT.lowers[name](shape_tensor(shape, [*([] if is_shape else [like]), *sources()]))
    return as_type(numbers, type_ or (DType.f32 if is_shape else dtype(like)))


def _uniform(like: Any, type_: DType | None = None) -> Array:
    return _drawn("RandomUniform", like, type_)


@lowers_torch("aten.rand", "aten.rand_like")
def lower_rand(like: Any, *, dtype: DType | None = None) -> Array:
    """RANDOM_UNIFORM.   like: a shape, or a tensor of that shape"""
    return _uniform(like, dtype)


@lowers_torch("aten.randn", "aten.randn_like")
def lower_randn(like: Any, *, dtype: DType | None = None) -> Array:
    """RANDOM_STANDARD_NORMAL.   like: a shape, or a tensor of that shape"""
    return _drawn("RandomStandardNormal", like, dtype)


@lowers_torch("aten.uniform")
def lower_uniform(x: Array, low: float = 0.0, high: float = 1.0) -> Array:
    """RANDOM_UNIFORM between two numbers, in the shape of x."""
    return ops.add(ops.mul(_uniform(x), scalar(high - low, x)), scalar(low, x))


@lowers_torch("aten.normal_functional")
def lower_normal_like(x: Array, mean: float = 0.0, std: float = 1.0) -> Array:
    """RANDOM_STANDARD_NORMAL, scaled and moved, in the shape of x."""
    return ops.add(ops.mul(lower_randn(x), scalar(std, x)), scalar(mean, x))


@lowers_torch("aten.normal.float_float")
def lower_normal(mean: float, std: float, size: Sequence[Dim], *, dtype: DType | None = None) -> Array:
    """RANDOM_STANDARD_NORMAL, scaled and moved."""
    drawn = lower_randn(size, dtype=dtype)
    return ops.add(ops.mul(drawn, scalar(std, drawn)), scalar(mean, drawn))


@lowers_torch("aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor")
def lower_normal_of_each(mean: Any, std: Any = 1.0) -> Array:
    """RANDOM_STANDARD_NORMAL, each element scaled and moved by its own numbers."""
    like = ops.add(mean, std) if is_tensor(mean) and is_tensor(std) else mean if is_tensor(mean) else std
    return ops.add(ops.mul(lower_randn(like), as_type(std, dtype(like))), as_type(mean, dtype(like)))


@lowers_torch("aten.exponential")
def lower_exponential(x: Array, rate: float = 1.0) -> Array:
    """-log(1 - u) / rate of uniform numbers u, which are below 1."""
    rest = ops.sub(scalar(1, x), _uniform(x))
    return ops.mul(ops.log(rest), scalar(-1 / rate, x))


def _integers(like: Any, low: Dim, high: Dim, type_: DType | None) -> Array:
    """RANDOM_UNIFORM, scaled and rounded down: integers from low to high - 1."""
    if not (is_known(low) and is_known(high)) or int(high) - int(low) > EXACT:
        raise LowerError(
            "random integers from a range that is large, or an open size",
            expected=f"numbers, at most {EXACT} apart",
            found=f"{low} to {high}",
        )
    drawn = ops.floor(ops.mul(_uniform(like, DType.f32), np.float32(int(high) - int(low))))
    kind = type_ or (DType.i64 if isinstance(like, list | tuple) else dtype(like))
    return as_type(ops.add(drawn, np.float32(low)), kind)


@lowers_torch("aten.randint.default", "aten.randint.generator")
def lower_randint(high: Dim, size: Sequence[Dim], *, dtype: DType | None = None) -> Array:
    """Integers from 0 to high - 1."""
    return _integers(size, 0, high, dtype)


@lowers_torch("aten.randint.low", "aten.randint.low_generator")
def lower_randint_from(low: Dim, high: Dim, size: Sequence[Dim], *, dtype: DType | None = None) -> Array:
    """Integers from low to high - 1."""
    return _integers(size, low, high, dtype)


@lowers_torch("aten.randint_like.default", "aten.randint_like.low_dtype")
def lower_randint_like(x: Array, *bounds: Dim, dtype: DType | None = None) -> Array:
    """Integers in the shape of x.   bounds: high, or low and high"""
    low, high = bounds if len(bounds) == 2 else (0, bounds[0])
    return _integers(x, low, high, dtype)


@lowers_torch("aten.bernoulli")
def lower_bernoulli(x: Array, p: Any = None) -> Array:
    """1 where a uniform number is below p, or below the element of x."""
    bound = x if p is None else as_type(p, dtype(x))
    return as_type(ops.less(_uniform(x), bound), dtype(x))


@lowers_torch("aten.native_dropout")
def lower_dropout(x: Array, p: float, train: bool | None = True) -> Any:
    """x with a share p of its elements 0, the others as much larger; nobody may ask for which they are."""
    if train is False or p == 0:
        return x, None
    stays = as_type(ops.greater_equal(_uniform(x), scalar(p, x)), dtype(x))
    return ops.mul(x, ops.mul(stays, scalar(0 if p == 1 else 1 / (1 - p), x))), None


@lowers_torch("aten.randperm")
def lower_randperm(count: Dim, *, dtype: DType = DType.i64) -> Array:
    """The numbers below a count in the order of random ones."""
    size = size_tensor(count, sources())
    return as_type(ops.topk_v2(_uniform((count,)), size)[1], dtype)


@lowers_torch("aten.multinomial")
def lower_multinomial(shares: Array, count: int, replacement: bool = False) -> Array:
    """MULTINOMIAL; without replacement the places of the largest elements of log(share) - log(-log(uniform))."""
    note(_NOTE)
    logits = ops.log(shares)
    if not replacement:
        gumbel = ops.neg(ops.log(ops.neg(ops.log(_uniform(shares)))))
        return as_type(ops.topk_v2(ops.add(logits, gumbel), np.int32(count))[1], DType.i64)
    rows = logits if rank(logits) == 2 else lower_unsqueeze(logits, 0)
    drawn = DEFAULT.lowers["Multinomial"](rows, np.int32(count), output_dtype=DType.i64)
    return drawn if rank(logits) == 2 else shaped(drawn, (count,), drawn)
