"""A convolution between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND is a dilated one: TensorFlow spells it so on CPUs.

The kernels dilate themselves, in 0.5 to 0.95 of the time (LiteRT 2.3.0, one thread, with XNNPACK and without).
"""

from __future__ import annotations

from typing import Any

from jfuse.ir.graph import Eqn
from jfuse.kernels.image import blocks
from jfuse.lowering.peephole.registry import View, peephole
from jfuse.lowering.rule_tools.dilated_convolution import dilated
from jfuse.lowering.rule_tools.query import keeps_type


@peephole(blocks.batch_to_space_nd)
def dilated_convolution(eqn: Eqn, view: View) -> Any:
    """BATCH_TO_SPACE_ND(CONV_2D[VALID](SPACE_TO_BATCH_ND(x, b, p), w), b, c) = CONV_2D[dilation=b](x, w)."""
    x, block_shape, crops = eqn.inputs
    result = dilated(x, block_shape, crops, view.producer)
    return result if result is not None and keeps_type(result.type, eqn.outputs[0].type) else None
