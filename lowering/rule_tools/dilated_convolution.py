"""Dilated convolutions that TensorFlow spells with SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND, as it does on CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.graph import Atom, Eqn
from jfuse.ir.trace import Producer
from jfuse.kernels.array import array
from jfuse.kernels.core.op import static_value
from jfuse.kernels.image import blocks
from jfuse.kernels.nn import conv
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.image_layout import Sides, known_padding, padded

_CONVOLUTIONS = (conv.conv_2d, conv.depthwise_conv_2d)
_RENAMES = (array.expand_dims, array.reshape, array.squeeze)


def dilated(x: Atom | None, block_shape: Atom | None, crops: Atom | None, producer: Producer) -> Any:
    """BATCH_TO_SPACE_ND of these operands as a dilated convolution; None where it is none."""
    taken = _DilatedParts.apart(x, producer)
    if taken is None or block_shape is None or crops is None:
        return None
    rates = static_value(block_shape)
    sides = _sides(taken.split, rates, static_value(crops))
    if rates is None or sides is None:
        return None
    image = taken.split.inputs[0]
    if taken.axis is not None:
        image = array.expand_dims(image, taken.axis)
        rates, sides = _with(rates, taken.axis, 1), _with(sides, taken.axis, (0, 0))
    result = _convolved(taken.convolution, image, rates, sides)
    return result if taken.axis is None else array.squeeze(result, squeeze_dims=(taken.axis,))


@dataclass(frozen=True)
class _DilatedParts:
    """The equations before a BATCH_TO_SPACE_ND.

    axis: the position of the dimension of 1 that sequences get for the convolution alone; None for images.
    """

    split: Eqn
    convolution: Eqn
    axis: int | None

    @classmethod
    def apart(cls, x: Atom | None, producer: Producer) -> _DilatedParts | None:
        convolution, squeezed = _behind_renaming(x, producer)
        if convolution is None or not _is_plain(convolution):
            return None
        split, expanded = _behind_renaming(convolution.inputs[0], producer)
        if split is None or split.op is not blocks.space_to_batch_nd or squeezed != expanded:
            return None
        if not expanded:
            return cls(split, convolution, None)
        axis = _added_axis(split, convolution)
        return None if axis is None else cls(split, convolution, axis)


def _behind_renaming(x: Atom | None, producer: Producer) -> tuple[Eqn | None, bool]:
    """Return the producer of x, or of the operand of its RESHAPE, and whether there was a RESHAPE."""
    eqn = producer(x)
    if eqn is None or eqn.op not in _RENAMES:
        return eqn, False
    return producer(eqn.inputs[0]), True


def _is_plain(eqn: Eqn) -> bool:
    if eqn.op not in _CONVOLUTIONS or eqn.params["padding"] != "VALID":
        return False
    names = ("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor")
    return all(eqn.params[name] == 1 for name in names)


def _added_axis(split: Eqn, convolution: Eqn) -> int | None:
    """The spatial axis of 1, over which the window is 1 as well, that makes an image of a sequence."""
    sequence, image, weights = (
        split.outputs[0].type.shape,
        *(a.type.shape for a in convolution.inputs[:2] if a is not None),
    )
    for axis in (1, 2):
        rest = (*image[:axis], *image[axis + 1 :])
        agrees = len(rest) == len(sequence) and all(same(d, e) is True for d, e in zip(rest, sequence, strict=True))
        if agrees and same(image[axis], 1) is True and same(weights[axis], 1) is True:
            return axis
    return None


def _sides(split: Eqn, rates: Any, crops: Any) -> Sides | None:
    """Compute the paddings of the dilated convolution: those that are not cropped again."""
    _, block_shape, paddings = (None if a is None else static_value(a) for a in split.inputs)
    if rates is None or crops is None or paddings is None or block_shape != rates:
        return None
    pairs = zip(paddings, crops, strict=True)
    sides = tuple((before - first, after - last) for (before, after), (first, last) in pairs)
    known = all(is_known(d) and d >= 0 for pair in sides for d in pair)
    return tuple((int(before), int(after)) for before, after in sides) if known else None


def _with(values: Any, axis: int, value: Any) -> tuple[Any, ...]:
    """One entry for each spatial axis, with that of the added one."""
    return (value, *values) if axis == 1 else (*values, value)


def _convolved(eqn: Eqn, image: Any, rates: tuple[int, ...], sides: Sides) -> Any:
    _, weights, *_ = eqn.inputs
    window = _window(weights)
    padding = known_padding(image.shape[1:-1], window, (1, 1), rates, sides)
    if padding == "EXPLICIT":
        image, padding = padded(image, sides), "VALID"
    options = {"padding": padding, "dilation_h_factor": rates[0], "dilation_w_factor": rates[1]}
    return again(eqn, inputs=(image, *eqn.inputs[1:]), **options)


def _window(weights: Atom | None) -> tuple[Dim, ...]:
    assert weights is not None
    return weights.type.shape[1:3]
