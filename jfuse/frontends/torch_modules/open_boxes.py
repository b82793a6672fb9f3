"""torchvision's detectors without branches on how many boxes there are, which data decide."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

_COUNTED = ("torchvision.ops.poolers", "torchvision.ops.boxes", "torchvision.models.detection.roi_heads")
_MISSING = object()


@contextmanager
def any_number_of_boxes() -> Iterator[None]:
    """Within the `with` torchvision computes for any number of boxes, where it is imported.

    Its batched_nms chooses for many boxes a loop over the classes, with the same result, and for none an empty result;
    `len` of a tensor is a number for Python, not an open size.
    """
    with ExitStack() as stack:
        for name in ("torchvision.ops.boxes", "torchvision.ops"):
            stack.enter_context(_replaced(name, "batched_nms", batched_nms))
        for name in _COUNTED:
            stack.enter_context(_replaced(name, "len", _length))
        yield


@contextmanager
def _replaced(module_name: str, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute of a module, if that is imported."""
    module = sys.modules.get(module_name)
    if module is None:
        yield
        return
    before = vars(module).get(name, _MISSING)
    setattr(module, name, value)
    try:
        yield
    finally:
        if before is _MISSING:
            delattr(module, name)
        else:
            setattr(module, name, before)


def _length(value: Any) -> Any:
    """As `len`, of a tensor its first size, which may be open."""
    import torch

    return value.shape[0] if isinstance(value, torch.Tensor) else builtins.len(value)


def batched_nms(boxes: Any, scores: Any, idxs: Any, iou_threshold: float) -> Any:
    """The places of boxes that no better one of their class overlaps by more than the threshold, best first.

    boxes: f[n, 4]; scores: f[n]; idxs: the classes, i[n] -> i64[chosen]. Boxes of each class are moved to where those
    of no other class are, as torchvision does it.
    """
    import torch

    offsets = idxs.to(boxes) * (boxes.max() + 1)
    return torch.ops.torchvision.nms(boxes + offsets[:, None], scores, iou_threshold)
