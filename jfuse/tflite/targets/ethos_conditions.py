"""Conditions of Arm's compiler for Ethos-U on an operator besides its types.

Those that `vela --supported-ops-report` (ethos-u-vela 5.2) lists, read as files of single operators showed them to be
meant (`python -m bench.npu_placement` compares all of them with the compiler). Values have four axes there, batch,
height, width and channels; the first are 1 where a tensor has fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Var
from jfuse.ir.types import DType
from jfuse.tflite.targets.conditions import Condition, Conditions, constant_operands, plain_lstm
from jfuse.tflite.targets.table import table_of

_IMAGE = 4  # axes
_MOST_STRIDE = 3
_WORD = 2**16


def _sizes(atom: Atom | None) -> tuple[int, ...] | None:
    """The sizes of a value with at least four axes; None where one is open."""
    if atom is None or not all(map(is_known, atom.type.shape)):
        return None
    sizes = tuple(int(d) for d in atom.type.shape)
    return (1,) * (_IMAGE - len(sizes)) + sizes


def _numbers(eqn: Eqn, index: int) -> list[int] | None:
    """The numbers of a constant operand."""
    atom = eqn.inputs[index] if index < len(eqn.inputs) else None
    return [int(n) for n in atom.array.ravel()] if isinstance(atom, Const) else None


def _data(eqn: Eqn) -> Iterable[Atom]:
    """The operands that are numbers of the model, not sizes, places or biases, and the results."""
    for i, atom in enumerate(eqn.inputs):
        declared = eqn.op.operand_at(i)
        is_data = not declared.static and not declared.shape_only and not declared.name.endswith("bias")
        if atom is not None and is_data:
            yield atom
    yield from eqn.outputs


def known_shape(eqn: Eqn) -> str | None:
    """All axes but the first are known, and there is one: "Tensors must have constant shape"."""
    for atom in _data(eqn):
        if isinstance(atom, Var) and not atom.type.shape:
            return "the NPU takes no computed number without an axis"
        if not all(map(is_known, atom.type.shape[1:])):
            return f"the NPU takes known sizes only, not {atom.type}"
    return None


def single_scale(eqn: Eqn) -> str | None:
    """Scales by channel are for the weights of products."""
    scales = (a.type.quantization.scale for a in _data(eqn) if a.type.quantization is not None)
    return "the NPU takes one scale for each tensor" if any(len(s) > 1 for s in scales) else None


def scaled(eqn: Eqn) -> str | None:
    """All integers have a scale; floats are not integers yet."""
    unscaled = next((a.type for a in _data(eqn) if a.type.quantization is None and a.dtype.kind in "iu"), None)
    return None if unscaled is None else f"the NPU takes integers with a scale, not {unscaled}"


def byte_weights(eqn: Eqn) -> str | None:
    """Weights of 8 bits."""
    weights = eqn.inputs[1]
    if weights is None or weights.type.dtype not in (DType.i4, DType.i2):
        return None
    return f"the NPU takes weights of 8 bits, not {weights.type.dtype.value}"


def short_strides(eqn: Eqn) -> str | None:
    """Strides of 3 at most, unless nothing is padded and nothing dilated."""
    reason = _stride(eqn)
    dilated = max(eqn.params.get("dilation_h_factor", 1), eqn.params.get("dilation_w_factor", 1)) > 1
    is_free = eqn.params["padding"] == "VALID" and not dilated
    return reason if reason is not None and not is_free else None


def _stride(eqn: Eqn) -> str | None:
    largest = max(int(eqn.params["stride_h"]), int(eqn.params["stride_w"]))
    return f"the NPU takes strides up to {_MOST_STRIDE}, not {largest}" if largest > _MOST_STRIDE else None


def short_depthwise_strides(eqn: Eqn) -> str | None:
    """Strides of 3 at most."""
    return _stride(eqn)


def small_average(eqn: Eqn) -> str | None:
    """Windows of 8 by 8 at most where they are padded, of 256 by 256 elsewhere."""
    height, width = int(eqn.params["filter_height"]), int(eqn.params["filter_width"])
    if eqn.params["padding"] == "VALID":
        return small_window(eqn)
    return f"the NPU pads windows of up to 8 by 8, not {height} by {width}" if max(height, width) > 8 else None


def small_window(eqn: Eqn) -> str | None:
    """Windows of 256 by 256 at most."""
    height, width = int(eqn.params["filter_height"]), int(eqn.params["filter_width"])
    is_small = height <= 256 and height * width <= _WORD
    return None if is_small else f"the NPU takes windows of up to 256 by 256, not {height} by {width}"


def same_parameters(eqn: Eqn) -> str | None:
    """Operands and result in one scale and zero point."""
    quantizations = {a.type.quantization for a in _data(eqn)}
    return "the NPU takes operands in the scale of the result only" if len(quantizations) > 1 else None


def narrow_mean(eqn: Eqn) -> str | None:
    """One image; channels alone, or with one row, column or channel; axes of less than 4,096."""
    x, axes = eqn.inputs[0], _numbers(eqn, 1)
    sizes = _sizes(x)
    if x is None or sizes is None or axes is None:
        return None  # constant_operands, known_shape
    rank = len(x.type.shape)
    places = {a % rank + len(sizes) - rank for a in axes}
    if len(sizes) == _IMAGE and sizes[0] > 1:
        return f"the NPU takes the mean of one image, not of {sizes[0]}"
    if len(sizes) - 1 in places and 1 not in sizes[-3:]:
        return "the NPU takes the mean of channels of a single row or column only"
    longest, count = max(sizes[p] for p in places), prod(sizes[p] for p in places)
    most = _WORD if x.type.dtype is DType.i16 else 2**24
    if longest >= 4096 or count > most:
        return (
            f"the NPU takes the mean of less than 4,096 by axis and {most:,} in all, not {[sizes[p] for p in places]}"
        )
    return None


def last_of_few(eqn: Eqn) -> str | None:
    """The largest of up to 127 channels."""
    x, axes = eqn.inputs[0], _numbers(eqn, 1)
    sizes = _sizes(x)
    if x is None or sizes is None or axes is None:
        return None
    if axes[0] % len(x.type.shape) != len(x.type.shape) - 1 or sizes[-1] > 127:
        return "the NPU takes the largest of up to 127 channels only"
    return None


def strides_in_images(eqn: Eqn) -> str | None:
    """Strides over rows and columns, forwards."""
    x, strides = eqn.inputs[0], _numbers(eqn, 3)
    if x is None or strides is None or eqn.params.get("ellipsis_mask") or eqn.params.get("new_axis_mask"):
        return None
    shrunk = int(eqn.params.get("shrink_axis_mask", 0))
    rank = len(x.type.shape)
    for axis, stride in enumerate(strides):
        from_back = rank - axis
        if stride != 1 and not shrunk >> axis & 1 and (stride < 0 or from_back not in (2, 3)):
            return f"the NPU takes strides over rows and columns, forwards, not {strides}"
    return None


def first_axis(eqn: Eqn) -> str | None:
    """The axis behind those of the batch."""
    x = eqn.inputs[0]
    if x is None or int(eqn.params["axis"]) % max(len(x.type.shape), 1) == int(eqn.params["batch_dims"]):
        return None
    return f"the NPU takes rows of the axis {eqn.params['batch_dims']} only, not {eqn.params['axis']}"


def no_reverse(eqn: Eqn) -> str | None:
    """No axis is taken."""
    return "the NPU takes no axis to reverse"


def few_rows(eqn: Eqn) -> str | None:
    """Rows and columns of less than 2^16 together."""
    sizes = _sizes(eqn.inputs[0])
    if sizes is None or prod(sizes[-3:-1]) < _WORD:
        return None
    return f"the NPU takes less than {_WORD:,} rows and columns together, not {prod(sizes[-3:-1]):,}"


def short_moves(eqn: Eqn) -> str | None:
    """Where more than rows, columns and channels move, 2^16 numbers in all axes but two."""
    sizes = _sizes(eqn.inputs[0])
    if sizes is None or len([n for n in sizes if n > 1]) <= 3:
        return None
    others = sorted(sizes)[2:]
    return None if prod(others) <= _WORD else f"the NPU moves up to {_WORD:,} numbers in all axes but two, not {sizes}"


def whole_steps(eqn: Eqn) -> str | None:
    """Transposed convolutions whose result is the stride times as large, and the rest of the kernel where unpadded."""
    weights, x, y = _sizes(eqn.inputs[1]), _sizes(eqn.inputs[2]), _sizes(eqn.outputs[0])
    if weights is None or x is None or y is None:
        return None
    strides = int(eqn.params["stride_h"]), int(eqn.params["stride_w"])
    is_padded = eqn.params["padding"] == "SAME"
    rest = (0, 0) if is_padded else tuple(max(k - s, 0) for k, s in zip(weights[1:3], strides, strict=True))
    expected = tuple(n * s + r for n, s, r in zip(x[1:3], strides, rest, strict=True))
    return None if y[1:3] == expected else f"the NPU makes {expected} of {x[1:3]} by strides of {strides}, not {y[1:3]}"


def steps_of_two(eqn: Eqn) -> str | None:
    """Transposed convolutions by strides of 1 or 2, the same for both axes; along one axis where the other is 1."""
    weights, x = _sizes(eqn.inputs[1]), _sizes(eqn.inputs[2])
    height, width = int(eqn.params["stride_h"]), int(eqn.params["stride_w"])
    if weights is None or x is None or (height, width) in ((1, 1), (2, 2)):
        return None
    flat = {(1, 2): x[1] == weights[1] == 1, (2, 1): x[2] == weights[2] == 1}
    return None if flat.get((height, width)) else f"the NPU takes strides of 1 or 2 for both axes, not {height, width}"


def _factors(eqn: Eqn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, float]] | None:
    """The sizes of an image before and after it is resized, and the factors of height and width."""
    x, y = _sizes(eqn.inputs[0]), _sizes(eqn.outputs[0])
    if x is None or y is None:
        return None
    less = 1 if eqn.params.get("align_corners") else 0
    factors = ((y[i] - less) / (x[i] - less) if x[i] > less else float(y[i] - less) for i in (1, 2))
    return x, y, tuple(factors)  # type: ignore[return-value]


def doubled(eqn: Eqn) -> str | None:
    """Images resized 2, 4 or 8 times in both directions, 2 times between centres by lines; one image at a time."""
    resize = _factors(eqn)
    if resize is None:
        return None
    x, y, (height, width) = resize
    by_lines = eqn.op.builtin == "RESIZE_BILINEAR" and bool(eqn.params.get("half_pixel_centers"))
    if x[1:3] == (1, 1) or (x == y and not by_lines):
        return None
    if x[0] > 1:
        return f"Arm's compiler (5.2) fails for more than one image, here {x[0]}"
    taken = (2,) if by_lines else (2, 4, 8)
    lines = [f for f, before, after in ((height, x[1], y[1]), (width, x[2], y[2])) if not before == after == 1]
    if height != width and len(lines) > 1:
        return f"the NPU resizes height and width alike, not {height:g} and {width:g} times"
    return None if lines[0] in taken else f"the NPU resizes {', '.join(map(str, taken))} times, not {lines[0]:g} times"


def by_powers(eqn: Eqn) -> str | None:
    """Images resized by powers of two, where lines are between their numbers."""
    resize = _factors(eqn)
    if resize is None or resize[0][1:3] == (1, 1):
        return None
    odd = [f for f in resize[2] if f <= 0 or np.log2(f) % 1]
    return f"the NPU resizes by powers of two, not {odd[0]:g} times" if odd else None


_EVERY: tuple[Condition, ...] = (constant_operands, known_shape)
_PRODUCTS = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
_RECURRENT = ("UNIDIRECTIONAL_SEQUENCE_LSTM",)
_BOTH: Mapping[str, tuple[Condition, ...]] = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (plain_lstm,),
    "FULLY_CONNECTED": (byte_weights,),
    "CONV_2D": (byte_weights,),
    "DEPTHWISE_CONV_2D": (byte_weights,),
    "TRANSPOSE_CONV": (byte_weights, whole_steps),
    "AVERAGE_POOL_2D": (small_average,),
    "MAX_POOL_2D": (small_window,),
    "MAXIMUM": (same_parameters,),
    "MINIMUM": (same_parameters,),
    "MEAN": (narrow_mean,),
    "SOFTMAX": (few_rows,),
    "STRIDED_SLICE": (strides_in_images,),
}
_U55: Mapping[str, tuple[Condition, ...]] = {
    "ARG_MAX": (last_of_few,),
    "CONV_2D": (short_strides,),
    "DEPTHWISE_CONV_2D": (short_depthwise_strides,),
    "AVERAGE_POOL_2D": (short_strides,),
    "MAX_POOL_2D": (short_strides,),
    "RESIZE_BILINEAR": (doubled,),
    "RESIZE_NEAREST_NEIGHBOR": (doubled,),
    "REVERSE_V2": (no_reverse,),
    "TRANSPOSE": (short_moves,),
    "TRANSPOSE_CONV": (steps_of_two,),
}
_U85: Mapping[str, tuple[Condition, ...]] = {"GATHER": (first_axis,), "RESIZE_BILINEAR": (by_powers,)}
_PLAIN = {
    "ethos-u55": ("MIRROR_PAD", "QUANTIZE", "ARG_MAX", "PADV2", "PAD", "EXPAND_DIMS", "TRANSPOSE"),
    "ethos-u85": (
        *("MIRROR_PAD", "QUANTIZE", "ARG_MAX", "PADV2", "PAD", "EXPAND_DIMS", "TRANSPOSE", "GATHER", "SCATTER_ND"),
        *("SELECT", "SELECT_V2", "REDUCE_ALL", "REDUCE_ANY", "ASSIGN_VARIABLE", "READ_VARIABLE"),
    ),
}
"""The operators whose tensors need no scale."""


def ethos_conditions(npu: str) -> Conditions:
    """The conditions of each operator of an NPU, by the name of its table: "ethos-u55", or "ethos-u85"."""
    own = {"ethos-u55": _U55, "ethos-u85": _U85}[npu]

    def of(name: str) -> tuple[Condition, ...]:
        single = () if name in (*_PRODUCTS, *_RECURRENT) else (single_scale,)
        scales = () if name in _PLAIN[npu] else (scaled,)
        return (*_EVERY, *single, *scales, *_BOTH.get(name, ()), *own.get(name, ()))

    return {name: of(name) for name in table_of(npu).operators}
