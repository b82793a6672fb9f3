"""Random numbers that are drawn at each call, by TFLite's generators: of PyTorch's distributions, in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.promotion import as_type, is_tensor
from jfuse.lowering.from_torch.shapes import lower_unsqueeze
from jfuse.lowering.ops.math.random import EXACT
from jfuse.lowering.rule_tools.place import note, sources
from jfuse.lowering.rule_tools.query import dtype, rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor, shaped, size_tensor
from jfuse.lowering.rules import DEFAULT, lowers_torch

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
