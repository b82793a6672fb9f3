"""Marked functions that the runtime has a custom operator for, whose source is a stub: TFLite_Detection_PostProcess."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jfuse.base.errors import LowerError
from jfuse.ir.dims import same
from jfuse.ir.graph import Graph, Var
from jfuse.ir.trace import active_trace
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.rule_tools.query import type_of
from jfuse.opaque_ops.custom_options import map_options
from jfuse.opaque_ops.tf_op import CustomOp

DETECTION = "TFLite_Detection_PostProcess"
_INTEGERS = ("max_detections", "max_classes_per_detection", "num_classes")
_FLOATS = ("nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale")
_REMEDY = (
    "fix the annotation or the arguments, or write the options that the kernel reads: "
    f'pipeline=jfuse.Pipeline(custom_ops={{"{DETECTION}": …}})'
)


def as_runtime_op(name: str) -> Callable[..., Sequence[Var]] | None:
    """Return the function that records the runtime's own operator for a marked function of this name; None without."""
    return _detection if name == DETECTION else None


def mistyped_results(name: str, stated: Sequence[TensorType], results: Sequence[Var]) -> dict[Var, LowerError]:
    """The results of a runtime's operator that have another rank in its stub, with the error for who reads them."""
    shapes = ", ".join(f"tf.zeros({list(map(str, r.type.shape))})".replace("'", "") for r in results)
    return {
        result: LowerError(
            f"an op reads result {number} of the function marked {name!r}, which has another type there",
            expected=f"{result.type}, as the operator gives it",
            found=f"{kind}, as the function's stub does",
            remedy=f"let the stub return what the operator does, so that what follows is traced for it: {shapes}",
        )
        for number, (kind, result) in enumerate(zip(stated, results, strict=True))
        if kind.rank != result.type.rank
    }


def is_stub(body: Graph) -> bool:
    """Whether a function has arguments, and no result depends on them."""
    read = {a for a in body.outputs if isinstance(a, Var)}
    for eqn in reversed(body.eqns):
        if read & set(eqn.outputs):
            read.update(a for a in eqn.inputs if isinstance(a, Var))
    return bool(body.inputs) and not read & set(body.inputs)


def written_attributes(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Attributes as the kernel reads them.   Source: tflite/kernels/detection_postprocess.cc"""
    return {key: int(value) if isinstance(value, bool) else value for key, value in attributes.items()}


def _detection(*operands: Any, attributes: Mapping[str, Any], results: Sequence[TensorType]) -> Sequence[Var]:
    """Boxes f32[1,d,4], classes f32[1,d], scores f32[1,d] and their number f32[1], d of them at most.

    operands: box encodings f32[1,n,4 or more], class predictions f32[1,n,classes], anchors f32[n,4]. results: the types
    that the function states, which are those or, of a stub, scalars. Raises LowerError where the kernel would fail.
    Source: tflite/kernels/detection_postprocess.cc; tflite/converter/utils/nms_utils.cc
    """
    _need_attributes(attributes)
    most = attributes["max_detections"] * attributes["max_classes_per_detection"]
    types = tuple(TensorType(shape, DType.f32) for shape in ((1, most, 4), (1, most), (1, most), (1,)))
    _need_operands([type_of(o) for o in operands])
    if len(results) != len(types) or not all(_states(r, t) for r, t in zip(results, types, strict=True)):
        raise LowerError(
            f"the results of a function marked {DETECTION} are not those of its operator",
            expected=", ".join(map(str, types)),
            found=", ".join(map(str, results)),
            remedy=_REMEDY,
        )
    params = {"options": map_options(written_attributes(attributes)), "version": 1}
    trace = active_trace()
    return trace.append(CustomOp(DETECTION, types, is_stubbed=True), trace.operands(operands), types, params)


def _need_attributes(attributes: Mapping[str, Any]) -> None:
    expected = {
        **dict.fromkeys(_INTEGERS, (int, "int")),
        **dict.fromkeys(_FLOATS, (float, "float")),
        "use_regular_nms": (bool, "bool"),
    }
    wrong = [
        f"{name}: {attributes.get(name)!r}"
        for name, (kind, _) in expected.items()
        if not isinstance(attributes.get(name), kind) or (kind is int and isinstance(attributes[name], bool))
    ]
    if not wrong and min(attributes[name] for name in _INTEGERS) < 1:
        wrong = [f"{name}: {attributes[name]}" for name in _INTEGERS]
    if wrong:
        raise LowerError(
            f"the annotation of {DETECTION} lacks what its kernel reads",
            expected=", ".join(f"{name}: {text}" for name, (_, text) in expected.items()) + ", the integers 1 or more",
            found=", ".join(wrong),
            remedy=_REMEDY,
        )


def _need_operands(types: Sequence[TensorType]) -> None:
    def fits() -> bool:
        if [t.rank for t in types] != [3, 3, 2] or any(t.dtype is not DType.f32 for t in types):
            return False
        boxes, classes, anchors = (t.shape for t in types)
        alike = same(boxes[1], classes[1]) is not False and same(boxes[1], anchors[0]) is not False
        return alike and same(boxes[0], 1) is True and same(classes[0], 1) is True and same(anchors[1], 4) is not False

    if not fits():
        raise LowerError(
            f"the kernel of {DETECTION} does not take these operands",
            expected="box encodings f32[1,n,4], class predictions f32[1,n,classes], anchors f32[n,4], of one image",
            found=", ".join(map(str, types)),
            remedy=f"{_REMEDY}; an open batch can be fixed: batch=1",
        )


def _states(stated: TensorType, own: TensorType) -> bool:
    """Whether the operator's result may replace a stub's: a scalar, or a tensor of the kernel's shape."""
    sizes = zip(stated.shape, own.shape, strict=False)
    alike = stated.rank == own.rank and all(same(a, b) is not False for a, b in sizes)
    return stated.dtype is DType.f32 and (stated.rank == 0 or alike)
