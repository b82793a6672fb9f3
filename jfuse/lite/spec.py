"""`Optimize`, `OpsSet`, `TargetSpec`, `RepresentativeDataset`: the values that scripts set on a converter.

TensorFlow's own objects of these names are taken as well: they are compared by the text of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import numpy as np


class Optimize(Enum):
    """Values of `TFLiteConverter.optimizations`. DEFAULT quantizes; the next two mean the same."""

    DEFAULT = "DEFAULT"
    OPTIMIZE_FOR_SIZE = "OPTIMIZE_FOR_SIZE"
    OPTIMIZE_FOR_LATENCY = "OPTIMIZE_FOR_LATENCY"
    EXPERIMENTAL_SPARSITY = "EXPERIMENTAL_SPARSITY"

    def __str__(self) -> str:
        return self.value


class OpsSet(Enum):
    """Values of `TargetSpec.supported_ops`: sets of operators that the runtime has."""

    TFLITE_BUILTINS = "TFLITE_BUILTINS"
    SELECT_TF_OPS = "SELECT_TF_OPS"
    TFLITE_BUILTINS_INT8 = "TFLITE_BUILTINS_INT8"
    EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8 = (
        "EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8"
    )
    EXPERIMENTAL_STABLEHLO_OPS = "EXPERIMENTAL_STABLEHLO_OPS"

    def __str__(self) -> str:
        return self.value


class RepresentativeDataset:
    """Samples for calibration.

    input_gen: a function without arguments whose result yields samples: lists of arrays in the order of the inputs,
        dicts by input name, or pairs of a signature key and such a dict.
    """

    def __init__(self, input_gen: Callable[[], Iterable[Any]]) -> None:
        self.input_gen = input_gen


class TargetSpec:
    """Operators and types of the runtime.

    supported_ops: a set or list of `OpsSet`. supported_types: dtypes that constants or activations may have (float16
    for weights of two bytes, int8 for integers alone). experimental_select_user_tf_ops: names of TensorFlow ops of the
    user's that the Flex delegate knows. experimental_supported_backends: is read by nothing here.
    """

    def __init__(
        self,
        supported_ops: Iterable[Any] | None = None,
        supported_types: Iterable[Any] | None = None,
        experimental_select_user_tf_ops: Iterable[str] | None = None,
        experimental_supported_backends: Iterable[str] | None = None,
    ) -> None:
        self.supported_ops = {OpsSet.TFLITE_BUILTINS} if supported_ops is None else supported_ops
        self.supported_types = set() if supported_types is None else supported_types
        self.experimental_select_user_tf_ops = (
            set() if experimental_select_user_tf_ops is None else experimental_select_user_tf_ops
        )
        self.experimental_supported_backends = experimental_supported_backends
        self._experimental_custom_op_registerers: list[Any] = []
        self._experimental_supported_accumulation_type: Any = None


def text_of(value: Any) -> str:
    """The text of an enum's value, of this module or of TensorFlow's: "DEFAULT" for `Optimize.DEFAULT`."""
    return str(getattr(value, "value", value))


def dtype_name(dtype: Any) -> str:
    """The name of a dtype of TensorFlow or NumPy: "int8" for `tf.int8`, `np.int8` and "int8"."""
    named = getattr(dtype, "name", None)
    return named if isinstance(named, str) else np.dtype(dtype).name
