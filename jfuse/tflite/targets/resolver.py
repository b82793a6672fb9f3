"""The methods of tflite-micro's MicroMutableOpResolver that add operators, by builtin."""

from __future__ import annotations

from jfuse.tflite.schema import is_custom

# Names that are not those of the builtins word by word (tensorflow/lite/micro/micro_mutable_op_resolver.h).
_METHODS = {
    "BATCH_MATMUL": "BatchMatMul",
    "CUMSUM": "CumSum",
    "PADV2": "PadV2",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
}


def resolver_method(builtin: str) -> str | None:
    """The method that adds a builtin, as `AddFullyConnected`; None for custom operators, which users add."""
    if is_custom(builtin):
        return None
    return "Add" + _METHODS.get(builtin, "".join(w if w[0].isdigit() else w.capitalize() for w in builtin.split("_")))
