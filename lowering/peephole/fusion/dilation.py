"""A convolution between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND is a dilated one: TensorFlow spells it so on CPUs.

The kernels dilate themselves, in 0.5 to 0.95 of the time (LiteRT 2.3.0, one thread, with XNNPACK and without).
"""

from __future__ import annotations

from typing import Any

from jfuse.ir.graph import Atom
from jfuse.kernels import ops
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.rule_tools.dilated_convolution import dilated
from jfuse.lowering.rules import need


# The lowering of convolutions knows the same spelling: what it reads is not spelled here once more.
@peephole(lambda x, rates, crops: ops.batch_to_space_nd(x, rates, crops))
def dilated_convolution(match: Match, x: Atom, rates: Atom, crops: Atom) -> Any:
    """BATCH_TO_SPACE_ND(CONV_2D[VALID](SPACE_TO_BATCH_ND(x, b, p), w), b, c) = CONV_2D[dilation=b](x, w)."""
    result = given(dilated(x, rates, crops, match.view.producer), "convolution_of_blocks")
    need(match.keeps_type(result), "type_of_result")
    return result
