"""The options of custom operators, which are flexbuffers: a map of attributes, or the node of a Flex operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from jfuse.base.errors import JfuseError
from jfuse.ir.types import TENSOR_TYPES, DType

FLEX = "Flex"
"""Prefix of custom codes by which the runtime recognizes operators of the Flex delegate."""
XNNPACK_OPS = frozenset({"Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D"})
"""Custom operators whose only kernels are in XNNPACK, LiteRT's default delegate.

Source: tflite/delegates/xnnpack/xnnpack_delegate.cc
"""
LITERT_OPS = XNNPACK_OPS | {"AudioSpectrogram", "Mfcc", "NumericVerify", "TFLite_Detection_PostProcess"}
"""Those that LiteRT's default interpreter runs.   Source: tflite/core/kernels/register.cc"""
GPU_OPS = XNNPACK_OPS | {"Resampler"}
"""Those of LiteRT's GPU delegate.   Source: tflite/delegates/gpu/common/model_builder.cc"""


def flex_options(op: str, node: bytes) -> bytes:
    """The options of the Flex operator of a TensorFlow op.   node: a serialized NodeDef"""
    builder = flexbuffers.Builder()
    with builder.Vector():
        builder.String(_Text(op))
        builder.String(_Text(node))
    return bytes(builder.Finish())


def flex_node(options: bytes) -> bytes:
    """The serialized NodeDef in a Flex operator's options; raises JfuseError where they are none."""
    try:
        return bytes(flexbuffers.GetRoot(options).AsVector[1].AsStringBytes)
    except Exception as error:  # the reader follows whatever offsets the bytes hold
        raise JfuseError("the options of a Flex operator hold no node", found=f"{options[:40]!r}") from error


def map_options(attributes: Mapping[str, Any]) -> bytes:
    """Attributes as TensorFlow's converter writes those of TensorFlow's ops, bools among them, for custom operators.

    attributes: int, bool, float, str, bytes (as text), DType (as TFLite's number of it), or a sequence of int, float or
        str. None and empty sequences are left out.
    """
    # All of them are looked at first: an error within a map would be hidden by the builder's own.
    plain = {name: _plain(name, value) for name, value in attributes.items()}
    builder = flexbuffers.Builder()
    with builder.Map():
        for name in sorted(plain, key=str.encode):
            if plain[name] is not None:
                builder.Key(name)
                _add(builder, plain[name])
    return bytes(builder.Finish())


def _plain(name: str, value: Any) -> Any:
    """An attribute as bool, int, float, _Text or a list of one of them; None for one that is left out."""
    if isinstance(value, DType):
        return TENSOR_TYPES[value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str | bytes):
        return _Text(value)
    items: list[Any] = list(value) if isinstance(value, Sequence) else [None]
    if all(isinstance(v, str | bytes) for v in items):
        return [_Text(v) for v in items] or None
    if all(isinstance(v, int) and not isinstance(v, bool) for v in items):
        return items
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in items):
        return [float(v) for v in items]
    raise JfuseError(
        f"the attribute {name!r} of a custom operator cannot be written",
        expected="int, bool, float, str, bytes, a DType, or a sequence of int, float or str",
        found=repr(value),
    )


def _add(builder: flexbuffers.Builder, value: Any) -> None:
    if isinstance(value, bool):
        builder.Bool(value)
    elif isinstance(value, int):
        builder.Int(value)
    elif isinstance(value, float):
        builder.Float(value, byte_width=4)  # TensorFlow's attributes are of 32 bits
    elif isinstance(value, _Text):
        builder.String(value)
    elif isinstance(value[0], int):
        builder.TypedVectorFromElements(value)
    elif isinstance(value[0], float):
        with builder.TypedVector():
            for item in value:
                _add(builder, item)
    else:
        with builder.Vector():
            for item in value:
                _add(builder, item)


class _Text:
    """Text that the builder takes for a string: it asks strings for their UTF-8, which a NodeDef's bytes are not."""

    def __init__(self, text: str | bytes) -> None:
        self._data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text

    def encode(self, encoding: str) -> bytes:
        """The bytes as they are."""
        return self._data
