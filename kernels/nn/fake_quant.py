"""FAKE_QUANT: the values that a quantized tensor could hold, as floats."""

from __future__ import annotations

import numpy as np

from jfuse.kernels.core.op import Array, namespace, tfl


def nudged_range(low: float, high: float, num_bits: int, narrow_range: bool) -> tuple[float, float, float]:
    """The step, and the range moved so that 0 is one of the steps: (step, least, greatest), rounded as f32.

    Source: tflite/kernels/internal/quantization_util.cc, NudgeQuantizationRange
    """
    first, last = np.float32(narrow_range), np.float32(2**num_bits - 1)
    step = (np.float32(high) - np.float32(low)) / (last - first)
    zero = np.floor(np.clip(first - np.float32(low) / step, first, last) + np.float32(0.5))
    return float(step), float((first - zero) * step), float((last - zero) * step)


@tfl("FAKE_QUANT", elementwise=True, switch="round")
def fake_quant(
    x: Array,
    /,
    *,
    min: float = 0.0,  # noqa: A002 - the schema's name
    max: float = 0.0,  # noqa: A002 - the schema's name
    num_bits: int = 0,
    narrow_range: bool = False,
) -> Array:
    """x cut to a range and rounded to one of its 2**num_bits steps.   x: f32[...] -> f32[...]

    Source: tflite/kernels/fake_quant.cc
    """
    xp = namespace(x)
    step, low, high = (x.dtype.type(v) for v in nudged_range(min, max, num_bits, narrow_range))
    steps = (xp.clip(x, low, high) - low) * (x.dtype.type(1) / step)
    return xp.floor(steps + x.dtype.type(0.5)) * step + low
