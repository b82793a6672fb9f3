"""`ConverterError`: raised by `TFLiteConverter.convert` if a model does not convert."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from jfuse.base.errors import JfuseError

_OFFICIAL = "tensorflow.lite.python.convert"
_IN_SCRIPTS = {
    "int8_only=False,": "target_spec.supported_ops = [TFLITE_BUILTINS_INT8, TFLITE_BUILTINS],",
    "pipeline=jfuse.Pipeline(select_tf_ops=True)": "SELECT_TF_OPS in target_spec.supported_ops",
    "inputs=jfuse.Inputs(input_signature=[tf.TensorSpec(…), …]), or a concrete function of it": (
        "a concrete function of it to from_concrete_functions"
    ),
    'calibration="random"': "a representative_dataset of random numbers",
    'quantize="int8", or another recipe': "optimizations = [Optimize.DEFAULT]",
}
"""Options of jfuse, and the attributes that say the same in a script."""


class ConverterError(JfuseError):
    """A model did not convert; the fields are those of the `JfuseError` that is its cause.

    It is TensorFlow's class of this name too where a script has imported that, so that `except` clauses catch it.
    """


def converter_error(error: JfuseError) -> ConverterError:
    """The error as `ConverterError`, with the same fields, and a remedy in attributes of the converter."""
    remedy = error.remedy
    for option, attribute in _IN_SCRIPTS.items():
        remedy = remedy and remedy.replace(option, attribute)
    return _class(getattr(sys.modules.get(_OFFICIAL), "ConverterError", None))(
        error.message,
        where=error.where,
        expected=error.expected,
        found=error.found,
        remedy=remedy,
        context=error.context,
    )


@cache
def _class(official: type[Exception] | None) -> type[ConverterError]:
    if official is None:
        return ConverterError

    def __init__(self: Any, message: str, **fields: Any) -> None:
        ConverterError.__init__(self, message, **fields)
        self.errors = []  # the official class collects MLIR's here

    return type("ConverterError", (ConverterError, official), {"__init__": __init__, "__doc__": ConverterError.__doc__})
