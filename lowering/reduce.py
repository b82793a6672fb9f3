"""TensorFlow's reductions, positions of extremes, and running sums."""

from __future__ import annotations

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.op import Array, TflOp
from jfuse.lowering.query import axes_of, rank
from jfuse.lowering.rules import LowerRule, lowers


def reduces(name: str, op: TflOp) -> LowerRule:
    """The rule for a reduction along static axes. No axes leave the operand as it is."""

    def lower(x: Array, axis: Array, *, keep_dims: bool = False) -> Array:
        axes = axes_of(axis, rank(x))
        return op(x, axes, keep_dims=keep_dims) if axes else x

    lower.__doc__ = f"{op.builtin} along static axes; without axes the operand itself."
    return lowers(name)(lower)


reduces("Mean", ops.mean)
reduces("Sum", ops.sum_)
reduces("Prod", ops.reduce_prod)
reduces("Max", ops.reduce_max)
reduces("Min", ops.reduce_min)
reduces("Any", ops.reduce_any)
reduces("All", ops.reduce_all)


@lowers("ArgMax")
def lower_arg_max(x: Array, dimension: Array, *, output_type: DType = DType.i64) -> Array:
    """ARG_MAX: the first of equals, as in TensorFlow."""
    return ops.arg_max(x, axes_of(dimension, rank(x), "dimension")[0], output_type=output_type)


@lowers("ArgMin")
def lower_arg_min(x: Array, dimension: Array, *, output_type: DType = DType.i64) -> Array:
    """ARG_MIN: the first of equals, as in TensorFlow."""
    return ops.arg_min(x, axes_of(dimension, rank(x), "dimension")[0], output_type=output_type)


@lowers("Cumsum")
def lower_cumsum(x: Array, axis: Array, *, exclusive: bool = False, reverse: bool = False) -> Array:
    """CUMSUM."""
    return ops.cumsum(x, axes_of(axis, rank(x))[0], exclusive=exclusive, reverse=reverse)
