"""Whole detectors as torchvision builds them: anchors, decoding, non-maximum suppression, features of regions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.torch_modules.torchvision_operators import operators
from tests.models.torch_modules.vision import unit


def anchors(height: int, width: int, stride: float, sizes: tuple[float, ...]) -> Any:
    """Boxes around the centre of each pixel of a map.   f32[height * width * sizes, 4]"""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    centres = (torch.stack([columns, rows, columns, rows], -1) + 0.5) * stride
    sides = torch.tensor([[-s, -s, s, s] for s in sizes]) / 2
    return (centres.reshape(-1, 1, 4) + sides).reshape(-1, 4)


def decoded(boxes: Any, offsets: Any) -> Any:
    """Boxes moved and scaled by offsets.   f32[n, 4], f32[n, 4] -> f32[n, 4]"""
    size = boxes[:, 2:] - boxes[:, :2]
    centre = boxes[:, :2] + 0.5 * size + offsets[:, :2] * size
    half = 0.5 * size * offsets[:, 2:].clamp(max=2.0).exp()
    return torch.cat([centre - half, centre + half], 1)


def suppressed_by_class(boxes: Any, scores: Any, labels: Any, threshold: float) -> Any:
    """Non-maximum suppression of each class for itself: the boxes of other classes are moved beyond each other."""
    apart = labels.to(boxes) * (boxes.max() + 1)
    return operators().nms(boxes + apart[:, None], scores, threshold)


def flat(x: Any, parts: int) -> Any:
    """f32[1, anchors * parts, h, w] -> f32[h * w * anchors, parts]"""
    _, _, h, w = x.shape
    return x.view(1, -1, parts, h, w).permute(0, 3, 4, 1, 2).reshape(-1, parts)


class SingleShot(nn.Module):
    """SSD: classes and boxes at each place of two maps, the best of each class, suppressed by class."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Sequential(unit(3, 8, stride=2), unit(8, 8, stride=2)), unit(8, 8, stride=2)
        self.classes, self.boxes = nn.Conv2d(8, 2 * 3, 3, padding=1), nn.Conv2d(8, 2 * 4, 3, padding=1)
        self.register_buffer("anchors", torch.cat([anchors(8, 8, 4.0, (6.0, 10.0)), anchors(4, 4, 8.0, (12.0, 20.0))]))

    def forward(self, x: Any) -> Any:
        """f32[1, 3, 32, 32] -> boxes f32[k, 4], scores f32[k], labels i64[k], k up to 10"""
        maps = [self.fine(x)]
        maps.append(self.coarse(maps[0]))
        scores = torch.cat([flat(self.classes(m), 3) for m in maps]).softmax(-1)
        boxes = decoded(self.anchors, torch.cat([flat(self.boxes(m), 4) for m in maps])).clamp(0, 32)
        found = []
        for label in (1, 2):
            top, places = scores[:, label].topk(20)
            found.append((boxes[places], top, torch.full_like(places, label)))
        boxes, scores, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
        kept = suppressed_by_class(boxes, scores, labels, 0.45)[:10]
        return {"boxes": boxes[kept], "scores": scores[kept], "labels": labels[kept]}


class OneClass(nn.Module):
    """RetinaNet's end: only boxes above a score, however many they are, then suppression."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(unit(3, 8, stride=4, kernel=3), unit(8, 8))
        self.score, self.box = nn.Conv2d(8, 1, 1), nn.Conv2d(8, 4, 1)
        self.register_buffer("anchors", anchors(8, 8, 4.0, (8.0,)))

    def forward(self, x: Any) -> Any:
        """f32[1, 3, 32, 32] -> boxes f32[k, 4], scores f32[k]"""
        x = self.body(x)
        scores = flat(self.score(x), 1)[:, 0].sigmoid()
        boxes = decoded(self.anchors, flat(self.box(x), 4))
        counts = scores > 0.4
        boxes, scores = boxes[counts], scores[counts]
        kept = operators().nms(boxes, scores, 0.5)
        return boxes[kept], scores[kept]


class TwoStage(nn.Module):
    """Faster R-CNN: proposals from a pyramid, features of each from the level of its size, classes and boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Sequential(unit(3, 8, stride=2), unit(8, 8, stride=2)), unit(8, 8, stride=2)
        self.across = nn.ModuleList([nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)])
        self.shared, self.object, self.move = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 1, 1), nn.Conv2d(8, 4, 1)
        self.first, self.classes, self.boxes = nn.Linear(8 * 9, 16), nn.Linear(16, 3), nn.Linear(16, 12)
        self.register_buffer("anchors", torch.cat([anchors(8, 8, 4.0, (6.0,)), anchors(4, 4, 8.0, (16.0,))]))

    def forward(self, x: Any) -> Any:
        """f32[1, 3, 32, 32] -> boxes f32[k, 3, 4], scores f32[k, 3], k up to 6"""
        fine = self.fine(x)
        top = self.across[1](self.coarse(fine))
        maps = [self.across[0](fine) + F.interpolate(top, size=fine.shape[-2:], mode="nearest"), top]
        shared = [F.relu(self.shared(m)) for m in maps]
        scores = torch.cat([flat(self.object(m), 1)[:, 0] for m in shared])
        boxes = decoded(self.anchors, torch.cat([flat(self.move(m), 4) for m in shared])).clamp(0, 32)
        best, places = scores.topk(30)
        proposals = boxes[places]
        proposals = proposals[operators().nms(proposals, best, 0.6)[:6]]
        y = F.relu(self.first(self.features(maps, proposals).flatten(1)))
        moved = [decoded(proposals, self.boxes(y)[:, 4 * i : 4 * i + 4]) for i in range(3)]
        return torch.stack(moved, 1), self.classes(y).softmax(-1)

    def features(self, maps: list[Any], boxes: Any) -> Any:
        """torchvision's MultiScaleRoIAlign: f32[k, 8, 3, 3], of the coarse map for boxes above 10 by 10 pixels"""
        rois = torch.cat([torch.zeros_like(boxes[:, :1]), boxes], 1)
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        levels = (area > 100).long()
        found = boxes.new_zeros((boxes.shape[0], 8, 3, 3))
        for level, scale in ((0, 0.25), (1, 0.125)):
            places = torch.where(levels == level)[0]
            found[places] = operators().roi_align(maps[level], rois[places], scale, 3, 3, 2, False)
        return found


class Masks(nn.Module):
    """Mask R-CNN's last stage: features of given regions of two images, and a mask for each."""

    def __init__(self) -> None:
        super().__init__()
        self.body = unit(3, 8, stride=2)
        self.conv, self.up, self.leave = unit(8, 8), nn.ConvTranspose2d(8, 8, 2, 2), nn.Conv2d(8, 2, 1)

    def forward(self, x: Any, boxes: Any) -> Any:
        """f32[2, 3, 32, 32], f32[2, 4, 4] -> f32[8, 2, 8, 8]"""
        image = torch.arange(2.0).repeat_interleave(4)[:, None]
        rois = torch.cat([image, boxes.sigmoid().flatten(0, 1) * torch.tensor([16.0, 16.0, 32.0, 32.0])], 1)
        found = operators().roi_align(self.body(x), rois, 0.5, 4, 4, 2, True)
        return self.leave(F.relu(self.up(self.conv(found)))).sigmoid()
