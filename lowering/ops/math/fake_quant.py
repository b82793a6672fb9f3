"""Values as a quantized tensor could hold them: FAKE_QUANT, or its arithmetic where that has no single known range."""

from __future__ import annotations

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import is_constant, rank, scalar
from jfuse.lowering.rules import lowers


@lowers("FakeQuantWithMinMaxArgs")
def lower_fake_quant_args(
    inputs: Array,
    *,
    min: float = -6.0,  # noqa: A002 - the attribute's name
    max: float = 6.0,  # noqa: A002 - the attribute's name
    num_bits: int = 8,
    narrow_range: bool = False,
) -> Array:
    """As with the range as operands."""
    bounds = (scalar(min, inputs), scalar(max, inputs))
    return lower_fake_quant_vars(inputs, *bounds, num_bits=num_bits, narrow_range=narrow_range)


@lowers("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def lower_fake_quant_vars(
    inputs: Array,
    min: Array,  # noqa: A002 - the operand's name
    max: Array,  # noqa: A002 - the operand's name
    *,
    num_bits: int = 8,
    narrow_range: bool = False,
) -> Array:
    """FAKE_QUANT of one range that is known and not empty; else the same arithmetic, along the last axis of x."""
    is_known = rank(min) == 0 and is_constant(min) and is_constant(max)
    if is_known and min < max:
        options = {"narrow_range": True} if narrow_range else {}
        return ops.fake_quant(inputs, min=float(min), max=float(max), num_bits=num_bits, **options)
    step, low, high, zero = _nudged(min, max, int(narrow_range), 2**num_bits - 1)
    # A range from 0 to 0 has no steps: everything is 0 in it.
    is_range = ops.less(low, high)
    rounded = _rounded(inputs, step, low, high, zero)
    return ops.select_v2(is_range, rounded, scalar(0, rounded))


def in_arithmetic(
    inputs: Array,
    *,
    min: float,  # noqa: A002 - the schema's name
    max: float,  # noqa: A002 - the schema's name
    num_bits: int,
    narrow_range: bool,
) -> Array:
    """FAKE_QUANT of a narrow range in other operators: it has an option for it, which its kernel refuses."""
    bounds = (scalar(min, inputs), scalar(max, inputs))
    return _rounded(inputs, *_nudged(*bounds, int(narrow_range), 2**num_bits - 1))


def cut(x: Array, low: float | None, high: float | None) -> Array:
    """Clip x to a range; an end may be open."""
    x = x if low is None else ops.maximum(x, scalar(low, x))
    return x if high is None else ops.minimum(x, scalar(high, x))


def is_never_negative(activation: str) -> bool:
    """Whether an activation, as a builtin or as an option of one, gives no negative numbers."""
    return activation in ("RELU", "RELU6", "RELU_0_TO_1", "LOGISTIC", "SOFTMAX")


def _rounded(inputs: Array, step: Array, low: Array, high: Array, zero: Array) -> Array:
    """The nearest of the steps within the range."""
    cut = ops.minimum(ops.maximum(inputs, low), high)
    steps = ops.sub(ops.mul(ops.sub(cut, low), ops.div(scalar(1, step), step)), zero)
    return ops.mul(ops.floor(ops.add(steps, scalar(0.5, steps))), step)


def _nudged(low: Array, high: Array, first: int, last: int) -> tuple[Array, Array, Array, Array]:
    """The step, the range moved so that 0 is one of the steps, and which of them that is, from the least on."""
    step = ops.div(ops.sub(high, low), scalar(last - first, low))
    zero = ops.sub(scalar(first, low), ops.div(low, step))
    cut = ops.minimum(ops.maximum(zero, scalar(first, low)), scalar(last, low))
    zero = ops.floor(ops.add(cut, scalar(0.5, low)))
    return (
        step,
        ops.mul(ops.sub(scalar(first, low), zero), step),
        ops.mul(ops.sub(scalar(last, low), zero), step),
        ops.sub(zero, scalar(first, low)),
    )
