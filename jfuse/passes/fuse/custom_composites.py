"""Marked functions as custom operators, with the names and options that TensorFlow's converter gives them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from jfuse.errors import LowerError
from jfuse.ir.graph import Eqn, Var
from jfuse.ir.trace import active_trace
from jfuse.lowering.composites.detection import DETECTION, written_attributes
from jfuse.opaque_ops.tf_op import CustomOp
from jfuse.passes.custom_options import given_options
from jfuse.passes.options import CustomOptions

_MARK = "tfl_fusable_op"  # an attribute by which a function asks TensorFlow's converter for a custom operator
_ADDONS = "addons:"  # its kernels go by the names without this


def as_custom(eqn: Eqn, given: CustomOptions) -> Sequence[Var]:
    """The results of a custom operator for a composite, whose body says what it computes, recorded in the active trace.

    given: its options; None for the attributes of the function's annotation.
    """
    name = eqn.params["name"]
    attributes = {key: value for key, value in eqn.params["attributes"] if key != _MARK}
    if (given is None or given is True) and name == "addons:MaxUnpooling2D":
        given = _pool_parameters(attributes, eqn)
    written = written_attributes(attributes) if name == DETECTION else attributes
    options = given_options(name, given, lambda: attributes, lambda: written)
    types = tuple(out.type for out in eqn.outputs)
    op = CustomOp(name.removeprefix(_ADDONS), types, stands_for=eqn.bodies[0])
    return active_trace().append(op, eqn.inputs, types, {"options": options, "version": 1})


def _pool_parameters(attributes: Mapping[str, Any], eqn: Eqn) -> bytes:
    """A TfLitePoolParams: padding, strides and window as width and height, no activation, computed paddings of 0.

    Source: tflite/kernels/perception/max_unpooling_2d.cc
    """
    try:
        (down, right), (height, width) = attributes["strides"], attributes["pool_size"]
        padding = {"SAME": 1, "VALID": 2}[attributes["padding"]]
    except (KeyError, TypeError, ValueError) as error:
        raise LowerError(
            "the annotation of addons:MaxUnpooling2D lacks what its kernel reads",
            where=str(eqn.source),
            expected='pool_size and strides of two numbers, padding "SAME" or "VALID"',
            found=dict(attributes),
            remedy='give the options as bytes: custom_ops={"addons:MaxUnpooling2D": b"…"}',
        ) from error
    return struct.pack("<10i", padding, right, down, width, height, 0, 0, 0, 0, 0)
