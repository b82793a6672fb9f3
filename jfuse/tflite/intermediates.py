"""The intermediate tensors of float LSTMs: empty, but there, as quantizers take no file without them.

TensorFlow's and ai-edge-quantizer's calibrators write the ranges between the gates into five such tensors
(tflite/converter/quantization/lite/quantize_model.cc); a float kernel never looks at them.
"""

from __future__ import annotations

from collections.abc import Sequence

from jfuse.ir.graph import Eqn, Var
from jfuse.ir.types import DType, TensorType

_EMPTY = TensorType((0,), DType.f32)


def empty_intermediates(eqn: Eqn) -> tuple[Var, ...]:
    """The tensors that the file has for an equation that names none; () for one on quantized tensors."""
    count = eqn.op.intermediates
    if not count or any(a is not None and a.type.quantization is not None for a in eqn.inputs[:1]):
        return ()
    return tuple(Var(_EMPTY) for _ in range(count))


def without_empty(eqn: Eqn, intermediates: Sequence[Var]) -> tuple[Var, ...]:
    """The intermediates that a file has for an equation; none of them where all are as `empty_intermediates` gives."""
    expected = empty_intermediates(eqn)
    is_empty = [v.type for v in intermediates] == [v.type for v in expected]
    return () if is_empty else tuple(intermediates)
