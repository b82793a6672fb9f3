"""Conditions of tflite-micro's kernels and of compilers on an operator besides its types, read in their sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jfuse.ir.graph import Const, Eqn
from jfuse.ir.types import DType

Condition = Callable[[Eqn], str | None]
"""Why an equation cannot run in a runtime; None where it can."""


def _has(eqn: Eqn, name: str) -> bool:
    """Whether an optional operand is given."""
    place = next((i for i, o in enumerate(eqn.op.operands) if o.name == name), len(eqn.inputs))
    return place < len(eqn.inputs) and eqn.inputs[place] is not None


_LSTM_PARTS = {
    "cell_to_output_weights": "peepholes",
    "projection_weights": "a projection",
    "forget_layer_norm_coefficients": "layer normalization",
}


def plain_lstm(eqn: Eqn) -> str | None:
    """Only LSTMs without optional parts.

    Source: tensorflow/lite/micro/kernels/unidirectional_sequence_lstm.cc; ethosu/vela/tflite_supported_operators.py.
    """
    parts = [text for name, text in _LSTM_PARTS.items() if _has(eqn, name)]
    parts += [] if _has(eqn, "input_to_input_weights") else ["coupled gates"]
    parts += ["diagonal recurrent weights"] if eqn.params.get("diagonal_recurrent_tensors") else []
    activation = eqn.params.get("fused_activation_function", "TANH")
    parts += [] if activation == "TANH" else [f"the activation {activation}"]
    types = {atom.type.dtype for atom in (eqn.inputs[0], *eqn.inputs[2:3]) if atom is not None}
    parts += ["f32 activations with i8 weights"] if types == {DType.f32, DType.i8} else []
    return f"the kernel takes no {' and no '.join(parts)}" if parts else None


def all_axes(eqn: Eqn) -> str | None:
    """tensorflow/lite/micro/kernels/strided_slice_common.cc: a range for each axis of the operand."""
    x, begin = eqn.inputs[0], eqn.inputs[1]
    if x is None or begin is None or begin.type.shape == (x.type.rank,):
        return None
    return f"the kernel takes a range for each of the {x.type.rank} axes"


def no_hybrid(eqn: Eqn) -> str | None:
    """tflite-micro removed kernels of f32 activations with i8 weights."""
    x, weights = (*eqn.inputs, None, None)[:2]
    is_hybrid = x is not None and weights is not None and (x.type.dtype, weights.type.dtype) == (DType.f32, DType.i8)
    return "the kernel takes no f32 activations with i8 weights" if is_hybrid else None


def few_values(eqn: Eqn) -> str | None:
    """Ten values at most values are joined: tensorflow/lite/micro/kernels/concatenation.cc, kMaxInputNum."""
    return f"the kernel joins 10 values at most, not {len(eqn.inputs)}" if len(eqn.inputs) > 10 else None


def narrow_indices(eqn: Eqn) -> str | None:
    """tensorflow/lite/micro/kernels/gather.cc and gather_nd.cc: indices of 32 bits."""
    indices = eqn.inputs[1]
    is_wide = indices is not None and indices.type.dtype is DType.i64
    return "the kernel takes indices of 32 bits, not i64" if is_wide else None


def constant_operands(eqn: Eqn) -> str | None:
    """Kernels read axes and sizes before the first call: they must be constants, but the axis of CUMSUM."""
    for index, atom in enumerate(eqn.inputs):
        operand = eqn.op.operand_at(index)
        if atom is not None and operand.decides_size and not isinstance(atom, Const) and eqn.op.builtin != "CUMSUM":
            return f"the operand {operand.name} is computed at run time"
    return None


def some_elements(eqn: Eqn) -> str | None:
    """tensorflow/lite/micro/micro_interpreter_graph.cc: a size of 0 among several is taken for one not yet known."""
    is_empty = any(v.type.rank > 1 and 0 in v.type.shape for v in eqn.outputs)
    return "a result without elements is taken for one of unknown size" if is_empty else None


Conditions = Mapping[str, tuple[Condition, ...]]
"""By builtin; those of every builtin by ANY_BUILTIN."""
ANY_BUILTIN = "*"

MICRO: Conditions = {
    ANY_BUILTIN: (constant_operands, some_elements),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (plain_lstm,),
    "STRIDED_SLICE": (all_axes,),
    "CONCATENATION": (few_values,),
    "FULLY_CONNECTED": (no_hybrid,),
    "GATHER": (narrow_indices,),
    "GATHER_ND": (narrow_indices,),
    "CONV_2D": (no_hybrid,),
    "DEPTHWISE_CONV_2D": (no_hybrid,),
}
MICRO_TYPES = {"UNIDIRECTIONAL_SEQUENCE_LSTM": frozenset({DType.i16})}
"""Types of activations that LiteRT's kernels do not take: this one has a bias of 64 bits then, which LiteRT refuses."""


def gpu_slice(eqn: Eqn) -> str | None:
    """No slice with masks of other axes: tflite/tools/versioning/gpu_compatibility.cc."""
    masks = [m for m in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask") if eqn.params.get(m)]
    if masks:
        return f"the delegate takes no {' and no '.join(masks)}"
    return gpu_rank(eqn)


def gpu_rank(eqn: Eqn) -> str | None:
    """tflite/tools/versioning/gpu_compatibility.cc: slices of 3 or 4 axes."""
    x = eqn.inputs[0]
    if x is None or x.type.rank in (3, 4):
        return None
    return f"the delegate takes 3 or 4 axes, not {x.type.rank}"


def gpu_lstm(eqn: Eqn) -> str | None:
    """tflite/delegates/gpu/common/model_builder.cc, LSTMOperationParser: the basic kernel, on what is computed."""
    if eqn.params.get("kernel_type") != "BASIC":
        return "CompiledModel passes the delegate no LSTM of the full kernel"
    computed = [a for i, a in enumerate(eqn.inputs) if i in (0, 1, 4)]
    return "the delegate takes no constant input or state" if any(isinstance(a, Const) for a in computed) else None


GPU: Conditions = {
    "LSTM": (gpu_lstm,),
    "STRIDED_SLICE": (gpu_slice,),
    "SLICE": (gpu_rank,),
    "PAD": (gpu_rank,),
    "PADV2": (gpu_rank,),
}
