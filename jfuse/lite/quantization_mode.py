"""`QuantizationMode`: which quantization the attributes of a converter ask for, by the official converter's rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.lite.settings import Settings
from jfuse.lite.spec import dtype_name, text_of
from jfuse.quantization.recipe import QuantizeRule, Recipe
from jfuse.records.conversion import Report

_QUANTIZES = {"DEFAULT", "OPTIMIZE_FOR_SIZE", "OPTIMIZE_FOR_LATENCY"}
_INT16X8 = "EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8"
_INT8 = "TFLITE_BUILTINS_INT8"
_IN_INTEGERS = ("int8", "int16x8", "trained")
_NO_DATA = "For full integer quantization, a `representative_dataset` must be specified."


@dataclass(frozen=True)
class QuantizationMode:
    """A quantization recipe with its types and data.

    recipe: the name of jfuse's recipe; None for none; "trained" for "int8" with the ranges of training alone, which is
    "dynamic" where there are none. integers_only: an operator without an integer kernel is an error.
    inputs, outputs: names of the dtypes of the file's inputs and outputs. per_channel: of the weights of "all" ops, of
    "convolutions" alone, or of "none". data: yields the samples; None where none are needed. Without a
    recipe the float file states their ranges. float_ops, float_nodes: builtins, and nodes by name, that stay float.
    """

    recipe: str | None
    integers_only: bool = False
    inputs: str = "float32"
    outputs: str = "float32"
    per_channel: str = "all"
    bias: str | None = None
    data: Callable[[], Any] | None = None
    float_ops: tuple[str, ...] = ()
    float_nodes: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> QuantizationMode:
        """The mode that the attributes ask for; raises ValueError, with the official texts, where they contradict."""
        spec = settings.target_spec
        ops = {text_of(ops) for ops in spec.supported_ops}
        types = {dtype_name(dtype) for dtype in spec.supported_types}
        data = settings.representative_dataset
        is_on = any(text_of(o) in _QUANTIZES for o in settings.optimizations or ())
        if _INT8 in ops or types == {"int8"}:
            _check_int8(ops, types, data or is_on)
            ops = {_INT8} if types == {"int8"} else ops
        smallest = min(types, key=lambda name: _bits(name), default="int8")
        recipe = None
        if is_on and data is not None and _INT16X8 in ops:
            recipe = "int16x8"
        elif is_on and data is not None and smallest == "int8":
            recipe = "int8"
        elif is_on and data is None and smallest == "int8":
            recipe = "trained"
        elif is_on and "float16" in types and _bits(smallest) == 16:
            recipe = "float16"
        inputs, outputs = (dtype_name(t or "float32") for t in _io(settings))
        _check_io(recipe, inputs, outputs)
        bias = settings._experimental_full_integer_quantization_bias_type
        bias = None if bias is None else dtype_name(bias)
        _check_bias(recipe, bias)
        if settings._experimental_calibrate_only and recipe in ("int8", "int16x8"):
            return cls(None, data=getattr(data, "input_gen", data))
        return cls(
            recipe,
            integers_only=recipe in _IN_INTEGERS and not ops & {"TFLITE_BUILTINS", "SELECT_TF_OPS"},
            inputs=inputs,
            outputs=outputs,
            per_channel=_per_channel(settings),
            bias=bias,
            data=getattr(data, "input_gen", data) if recipe in ("int8", "int16x8") else None,
        )

    def rules(self) -> Recipe | None:
        """The recipe as jfuse has it; None for floats."""
        if self.recipe is None:
            return None
        changes: dict[str, Any] = {"inputs": self.inputs, "outputs": self.outputs, "int8_only": self.integers_only}
        if self.recipe == "trained":
            recipe = Recipe.named("int8", **changes, from_training=True)
        else:
            recipe = Recipe.named(self.recipe, **(changes if self.recipe in _IN_INTEGERS else {}))
        if self.bias == "int32" and self.recipe == "int16x8":
            narrow = (replace(r, op=op, bias_bits=32) for r in recipe.rules for op in ("FULLY_CONNECTED", "CONV_2D"))
            recipe = replace(recipe, rules=(*recipe.rules, *narrow))
        coarse = tuple(replace(rule, granularity="tensor") for rule in recipe.rules)
        if self.per_channel == "none":
            recipe = replace(recipe, rules=coarse)
        elif self.per_channel == "convolutions":
            dense = (replace(r, op="FULLY_CONNECTED") for r in coarse if r.op in ("*", "FULLY_CONNECTED"))
            recipe = replace(recipe, rules=(*recipe.rules, *dense))
        nodes = [re.escape(node) for name in self.float_nodes for node in name.split(";")]
        left = [QuantizeRule("float", op=op) for op in self.float_ops]
        left += [QuantizeRule("float", regex=f"(^|/)({'|'.join(nodes)})$")] if nodes else []
        return replace(recipe, rules=(*recipe.rules, *left), int8_only=recipe.int8_only and not left)

    def found(self, report: Report) -> QuantizationMode:
        """The actual mode of a conversion, from its report: without ranges of training it was "dynamic".

        Raises ValueError, with the official texts, where the attributes ask for integers all the same.
        """
        if self.recipe != "trained" or any("activations" in ops.form for ops in report.quantized):
            return self
        if self.integers_only:
            raise ValueError(_NO_DATA)
        _check_io("dynamic", self.inputs, self.outputs)
        return replace(self, recipe="dynamic")


def _io(settings: Settings) -> tuple[Any, Any]:
    return settings.inference_input_type, settings.inference_output_type


def _bits(name: str) -> int:
    return 16 if name == "bfloat16" else np.dtype(name).itemsize * 8


def _per_channel(settings: Settings) -> str:
    if settings._experimental_disable_per_channel:
        return "none"
    return "convolutions" if settings._experimental_disable_per_channel_quantization_for_dense_layers else "all"


def _check_int8(ops: set[str], types: set[str], data: Any) -> None:
    if ops == {_INT8} and types not in (set(), {"int8"}):
        raise ValueError(
            "As full integer quantization has been enabled by setting "
            "`target_spec.supported_ops`={tf.lite.OpsSet.TFLITE_BUILTINS_INT8}, thus `target_spec.supported_types` "
            "should be left uninitizalized or set to {tf.int8}."
        )
    if not data:
        raise ValueError(_NO_DATA)


def _check_io(recipe: str | None, inputs: str, outputs: str) -> None:
    if recipe not in _IN_INTEGERS:
        if {inputs, outputs} != {"float32"}:
            raise ValueError("The inference_input_type and inference_output_type must be tf.float32.")
        return
    known = ["float32", "int16"] if recipe == "int16x8" else ["float32", "int8", "uint8", "int16"]
    if inputs not in known or outputs not in known:
        names = ["tf." + name for name in known]
        raise ValueError(f"The inference_input_type and inference_output_type must be in {names}.")


def _check_bias(recipe: str | None, bias: str | None) -> None:
    if bias is None:
        return
    if recipe not in _IN_INTEGERS:
        raise ValueError("`full_integer_quantization_bias_type` is only supported for full integer quantization.")
    if recipe != "int16x8" and bias != "int32":
        raise ValueError(f"Expected bias type to be `dtypes.int32` for Int8Quant. Current setting bias type: {bias}")
    if bias not in ("int32", "int64"):
        raise ValueError(
            "Expected bias type to be `dtypes.int32` or `dtypes.int64` for Int16Quant. "
            f"Current setting bias type: {bias}"
        )
