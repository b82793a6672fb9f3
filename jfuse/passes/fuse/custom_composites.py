"""Marked functions as custom operators, with the names and options that TensorFlow's converter gives them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jfuse.base.errors import LowerError
from jfuse.ir.dims import same
from jfuse.ir.graph import Eqn, Var
from jfuse.ir.trace import active_trace
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.composites.detection import DETECTION, written_attributes
from jfuse.lowering.rule_tools.query import type_of
from jfuse.opaque_ops.tf_op import CustomOp
from jfuse.passes.custom_options import given_options
from jfuse.passes.options import CustomOptions

_MARK = "tfl_fusable_op"  # an attribute by which a function asks TensorFlow's converter for a custom operator
_ADDONS = "addons:"  # its kernels go by the names without this

Attributes = Mapping[str, Any]
Types = Sequence[TensorType]


def as_custom(eqn: Eqn, requested: CustomOptions) -> Sequence[Var]:
    """The results of a custom operator for a composite, whose body says what it computes, recorded in the active trace.

    requested: its options; None for those that its kernel reads, or else all attributes of the annotation.
    Raises LowerError where the annotation lacks what the kernel reads, or the kernel has other operands or results.
    """
    name = eqn.params["name"]
    attributes = {key: value for key, value in eqn.params["attributes"] if key != _MARK}
    kernel = _KERNELS.get(name, _Kernel(dict))
    options = given_options(name, requested, lambda: attributes, lambda: kernel.written(eqn, attributes))
    types = tuple(out.type for out in eqn.outputs)
    op = CustomOp(name.removeprefix(_ADDONS), types, stands_for=eqn.bodies[0])
    return active_trace().append(op, eqn.inputs, types, {"options": options, "version": 1})


@dataclass(frozen=True)
class _Kernel:
    """A kernel that TensorFlow's converter writes operators for.

    options: what it reads, of the annotation's attributes; KeyError, TypeError or ValueError where they lack it.
    attributes: what that is. fits: whether it has such operands and results for these attributes. signature: what fits.
    """

    options: Callable[[Attributes], Attributes | bytes]
    attributes: str = ""
    fits: Callable[[Types, Types, Attributes], bool] = lambda operands, results, attributes: True
    signature: str = ""

    def written(self, eqn: Eqn, attributes: Attributes) -> Attributes | bytes:
        """The options of the operator for a composite."""
        name = eqn.params["name"]
        try:
            options = self.options(attributes)
        except (KeyError, TypeError, ValueError) as error:
            raise LowerError(
                f"the annotation of {name} lacks what its kernel reads",
                where=str(eqn.source),
                expected=self.attributes,
                found=dict(attributes),
                remedy=f'give the options as bytes: pipeline=jfuse.Pipeline(custom_ops={{"{name}": b"…"}})',
            ) from error
        operands, results = [type_of(a) for a in eqn.inputs], [out.type for out in eqn.outputs]
        if not self.fits(operands, results, attributes):
            raise LowerError(
                f"the kernel of {name} does not take these operands and results",
                where=str(eqn.source),
                expected=self.signature,
                found=f"{', '.join(map(str, operands))} -> {', '.join(map(str, results))}",
                remedy="fix the function, or give the options as bytes: "
                f'pipeline=jfuse.Pipeline(custom_ops={{"{name}": b"…"}})',
            )
        return options


def _pool_parameters(attributes: Attributes) -> bytes:
    """A TfLitePoolParams: padding, strides and window as width and height, no activation, computed paddings of 0.

    Source: tflite/kernels/perception/max_unpooling_2d.cc
    """
    (down, right), (height, width) = attributes["strides"], attributes["pool_size"]
    padding = {"SAME": 1, "VALID": 2}[attributes["padding"]]
    return struct.pack("<10i", padding, right, down, width, height, 0, 0, 0, 0, 0)


def _only(**kinds: type) -> Callable[[Attributes], Attributes]:
    """The attributes of these names; TypeError where one is of another type."""

    def chosen(attributes: Attributes) -> Attributes:
        options = {name: attributes[name] for name in kinds}
        wrong = [name for name, kind in kinds.items() if type(options[name]) is not kind]
        if wrong:
            raise TypeError(", ".join(wrong))
        return options

    return chosen


def _is_text(kind: TensorType, *ranks: int) -> bool:
    return kind.dtype is DType.string and (not ranks or kind.rank in ranks)


def _are_splits(types: Types) -> bool:
    return all(t.dtype is DType.i64 and t.rank == 1 for t in types)


def _tokenizes(operands: Types, results: Types, _: Attributes) -> bool:
    counts = len(operands) == 1 and _is_text(operands[0], 0, 1, 2) and len(results) == operands[0].rank + 1
    return counts and _is_text(results[0], 1) and _are_splits(results[1:])


def _makes_ngrams(operands: Types, results: Types, _: Attributes) -> bool:
    if not operands or len(operands) != len(results):
        return False
    ranks = (1,) if operands[1:] else (operands[0].rank,)
    texts = _is_text(operands[0], *ranks) and _is_text(results[0], *ranks)
    return texts and _are_splits([*operands[1:], *results[1:]])


def _projects(operands: Types, results: Types, attributes: Attributes) -> bool:
    if (len(operands), len(results)) != (2, 1) or not _is_text(operands[0]) or not operands[1].dtype.is_integer:
        return False
    (result,) = results
    return (
        result.dtype.is_float and result.rank == 2 and same(result.shape[1], len(attributes["hash_seed"])) is not False
    )


def _is_of_two(operands: Types, results: Types, _: Attributes) -> bool:
    return (len(operands), len(results)) == (2, 1)


def _warps(operands: Types, results: Types, attributes: Attributes) -> bool:
    are_images = all(t.dtype is DType.f32 and t.rank == 4 for t in (*operands, *results))
    return are_images and _is_of_two(operands, results, attributes)


_KERNELS: Mapping[str, _Kernel] = {
    DETECTION: _Kernel(written_attributes),
    "addons:DenseImageWarp": _Kernel(
        lambda _: b"", fits=_warps, signature="an image and a flow, f32 of rank 4, and an image of rank 4"
    ),
    "addons:MaxUnpooling2D": _Kernel(
        _pool_parameters,
        'pool_size and strides of two numbers, padding "SAME" or "VALID"',
        fits=_is_of_two,
        signature="values and the places that they came from, and one result",
    ),
    "tftext:WhitespaceTokenizer": _Kernel(
        lambda _: b"",
        fits=_tokenizes,
        signature="texts of rank 0 to 2, and tokens with i64 row splits for each axis of the texts",
    ),
    "tftext:Ngrams": _Kernel(
        _only(width=int, string_separator=str, axis=int, reduction_type=str),
        "width and axis, integers, string_separator and reduction_type, texts",
        fits=_makes_ngrams,
        signature="texts with any number of i64 row splits, and as many results of the same types",
    ),
    "tftext:custom:SgnnProjection": _Kernel(
        _only(hash_seed=tuple, buckets=int),
        "hash_seed, a list of integers, and buckets, an integer",
        fits=_projects,
        signature="texts and integer row splits, and floats of rank 2, as many in a row as hash_seed has",
    ),
}
"""By the name of the marked function.

Source: tflite/converter/utils/tftext_utils.cc, nms_utils.cc and perception_ops_utils.cc
"""
