"""`Settings`: the attributes of the official converter, their defaults, and which of them change nothing here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any, ClassVar

from jfuse.lite.spec import TargetSpec

_DEFAULTS: dict[str, Callable[[], Any]] = {
    "optimizations": set,
    "representative_dataset": lambda: None,
    "target_spec": TargetSpec,
    "inference_input_type": lambda: "float32",
    "inference_output_type": lambda: "float32",
    "allow_custom_ops": lambda: False,
    "exclude_conversion_metadata": lambda: False,
    "_experimental_disable_per_channel": lambda: False,
    "_experimental_disable_per_channel_quantization_for_dense_layers": lambda: False,
    "_experimental_full_integer_quantization_bias_type": lambda: None,
    "_experimental_use_buffer_offset": lambda: False,
    "_experimental_allow_all_select_tf_ops": lambda: False,
    "_experimental_variable_quantization": lambda: False,
    "_experimental_qdq_conversion_mode": lambda: None,
    "_experimental_calibrate_only": lambda: False,
    "canonicalizing_inf_as_min_max_float": lambda: True,
}
"""The attributes that `convert` reads."""
_FULFILLED: dict[str, Any] = {
    "experimental_new_converter": True,
    "experimental_new_quantizer": True,
    "experimental_new_dynamic_range_quantizer": True,
    "experimental_enable_resource_variables": True,
    "experimental_lower_to_saved_model": True,
    "unfold_batchmatmul": False,
    "legalize_custom_tensor_list_ops": False,
    "_experimental_lower_tensor_list_ops": True,
    "_experimental_default_to_single_batch_in_tensor_list_ops": False,
    "_experimental_unfold_large_splat_constant": False,
    "_experimental_enable_dynamic_update_slice": False,
    "_experimental_guarantee_all_funcs_one_use": False,
    "_experimental_enable_composite_direct_lowering": True,
    "_experimental_disable_fuse_mul_and_fc": False,
    "_experimental_unsafe_fuse_dynamic_shaped_broadcast": False,
    "enable_timing": None,
}
"""Attributes about the official converter's ways: whatever they say, models convert and answer as the source does."""
_WITHOUT_MEANING: dict[str, Any] = {
    "serialize_debug_metadata": False,
    "model_origin_framework": "UNSET",
    "saved_model_dir": None,
    "experimental_use_stablehlo_quantizer": False,
    "experimental_stablehlo_quantizer_config": None,
    "ir_dump_dir": None,
    "ir_dump_pass_regex": None,
    "ir_dump_func_regex": None,
    "print_ir_before": None,
    "print_ir_after": None,
    "print_ir_module_scope": None,
    "elide_elementsattrs_if_larger": None,
    "_debug_info": None,
    "_experimental_sparsify_model": False,
    "_experimental_tf_quantization_mode": None,
    "_experimental_quantization_options": None,
    "_experimental_preserve_assert_op": False,
    "_experimental_low_bit_qat": False,
    "_experimental_reduce_type_precision": False,
    "_experimental_strict_qdq": False,
}
"""Attributes that change nothing here: setting one to another value than the default warns once."""
_warned: set[str] = set()


class Settings:
    """The official attributes. An unknown one is an error, unless a subclass says that it `_takes_any`.

    optimizations: `Optimize` values; any quantizes. representative_dataset: a function that yields samples, or a
    `RepresentativeDataset`. inference_input_type, inference_output_type: dtypes of the file's inputs and outputs.
    allow_custom_ops: TensorFlow ops without a rule become custom operators. exclude_conversion_metadata: leave the
    entry CONVERSION_METADATA out.
    """

    _takes_any: ClassVar[bool] = False
    optimizations: Collection[Any]
    representative_dataset: Any
    target_spec: Any
    inference_input_type: Any
    inference_output_type: Any
    allow_custom_ops: bool
    exclude_conversion_metadata: bool
    _experimental_disable_per_channel: bool
    _experimental_disable_per_channel_quantization_for_dense_layers: bool
    _experimental_full_integer_quantization_bias_type: Any
    _experimental_use_buffer_offset: bool
    _experimental_allow_all_select_tf_ops: bool
    _experimental_variable_quantization: bool
    _experimental_qdq_conversion_mode: Any
    _experimental_calibrate_only: bool
    canonicalizing_inf_as_min_max_float: bool

    def __init__(self) -> None:
        for name, default in _DEFAULTS.items():
            super().__setattr__(name, default())
        for name, value in {**_FULFILLED, **_WITHOUT_MEANING}.items():
            super().__setattr__(name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _WITHOUT_MEANING and value != _WITHOUT_MEANING[name] and name not in _warned:
            _warned.add(name)
            warnings.warn(f"{name} changes nothing in jfuse's converter", UserWarning, stacklevel=2)
        if not self._takes_any and name not in vars(self):  # the constructor sets each known one
            close = get_close_matches(name, [*_DEFAULTS, *_FULFILLED, *_WITHOUT_MEANING], n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise AttributeError(f"TFLiteConverter has no attribute {name!r}{hint}")
        super().__setattr__(name, value)
