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
    """FAKE_QUANT of one range that is known and not empty; else the same arithmetic, along the last axis of x.

    FAKE_QUANT has an option for the narrow range, which its kernel refuses.
    """
    is_known = rank(min) == 0 and is_constant(min) and is_constant(max)
    if is_known and min < max and not narrow_range:
        return ops.fake_quant(inputs, min=float(min), max=float(max), num_bits=num_bits)
    step, low, high, zero = _nudged(min, max, int(narrow_range), 2**num_bits - 1)
    cut = ops.minimum(ops.maximum(inputs, low), high)
    steps = ops.sub(ops.mul(ops.sub(cut, low), ops.div(scalar(1, step), step)), zero)
    rounded = ops.mul(ops.floor(ops.add(steps, scalar(0.5, steps))), step)
    # A range from 0 to 0 has no steps: everything is 0 in it.
    is_range = ops.less(low, high)
    return ops.select_v2(is_range, rounded, scalar(0, rounded))


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
