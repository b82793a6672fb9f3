"""Small relatives of torchvision's models: classification, segmentation, detection."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def unit(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: Any = nn.ReLU) -> Any:
    """A convolution, a batch norm, an activation, as torchvision's Conv2dNormActivation."""
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([act(inplace=True)] if act else []))


class Convolutions(nn.Module):
    """Convolutions, pools, a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(unit(3, 8), nn.MaxPool2d(2), unit(8, 16, stride=2), nn.AvgPool2d(2))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        """f32[b, 3, h, w] -> f32[b, 10]"""
        return self.head(F.adaptive_avg_pool2d(self.body(x), 1).flatten(1))


class Residual(nn.Module):
    """Blocks of a ResNet-18, one of which halves the image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(unit(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.first = nn.Sequential(unit(8, 8), unit(8, 8, act=None))
        self.second = nn.Sequential(unit(8, 16, stride=2), unit(16, 16, act=None))
        self.across = unit(8, 16, 1, 2, act=None)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        """f32[b, 3, h, w] -> f32[b, 4]"""
        x = self.stem(x)
        x = F.relu(self.first(x) + x)
        x = F.relu(self.second(x) + self.across(x))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Bottleneck(nn.Module):
    """A block of a ResNet-50 of groups."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(unit(3, 4, 1), unit(4, 4, groups=2), unit(4, 8, 1, act=None))
        self.across = unit(3, 8, 1, act=None)

    def forward(self, x: Any) -> Any:
        """f32[b, 3, h, w] -> f32[b, 8]"""
        return F.relu(self.body(x) + self.across(x)).mean((2, 3))


def vgg() -> Any:
    """Plain convolutions, and dense layers over what is left of the image."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2, 2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2, 2),
        nn.AdaptiveAvgPool2d((2, 2)),
        nn.Flatten(),
        nn.Linear(64, 16),
        nn.ReLU(True),
        nn.Dropout(),
        nn.Linear(16, 4),
    )


class MobileNet(nn.Module):
    """Inverted residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = unit(3, 8, stride=2, act=nn.ReLU6)
        self.block = nn.Sequential(
            unit(8, 24, 1, act=nn.ReLU6), unit(24, 24, groups=24, act=nn.ReLU6), unit(24, 8, 1, act=None)
        )
        self.down = nn.Sequential(
            unit(8, 24, 1, act=nn.Hardswish), unit(24, 24, 5, 2, 24, nn.Hardswish), unit(24, 12, 1, act=None)
        )
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(12, 4))

    def forward(self, x: Any) -> Any:
        """f32[b, 3, h, w] -> f32[b, 4]"""
        x = self.stem(x)
        return self.head(self.down(x + self.block(x)).mean([2, 3]))


class SqueezeExcite(nn.Module):
    """Channels weighted by what the whole image says, as EfficientNet does."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = unit(3, 16, stride=2, act=nn.SiLU)
        self.deep = unit(16, 16, groups=16, act=nn.SiLU)
        self.squeeze, self.excite = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.project = unit(16, 8, 1, act=None)

    def forward(self, x: Any) -> Any:
        """f32[b, 3, h, w] -> f32[b, 8]"""
        x = self.deep(self.stem(x))
        scale = torch.sigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        return self.project(x * scale).mean((2, 3))


class DenseNet(nn.Module):
    """Each layer sees all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(8 + 4 * i), nn.ReLU(inplace=True), nn.Conv2d(8 + 4 * i, 4, 3, padding=1, bias=False)
            )
            for i in range(3)
        )
        self.across = nn.Sequential(nn.BatchNorm2d(20), nn.ReLU(inplace=True), nn.Conv2d(20, 8, 1), nn.AvgPool2d(2, 2))

    def forward(self, x: Any) -> Any:
        """f32[b, 3, h, w] -> f32[b, 8]"""
        found = [self.stem(x)]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return self.across(torch.cat(found, 1)).mean((2, 3))


class ShuffleNet(nn.Module):
    """Half of the channels through a branch, then both mixed."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Sequential(unit(4, 4, 1), unit(4, 4, groups=4, act=None), unit(4, 4, 1))

    def forward(self, x: Any) -> Any:
        """f32[b, 8, h, w] -> f32[b, 8, h, w]"""
        kept, sent = x.chunk(2, dim=1)
        x = torch.cat((kept, self.branch(sent)), dim=1)
        b, c, h, w = x.shape
        return x.view(b, 2, c // 2, h, w).transpose(1, 2).contiguous().view(b, c, h, w)


class Inception(nn.Module):
    """Branches of several windows side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.three = unit(3, 4, 1), nn.Sequential(unit(3, 4, 1), unit(4, 6))
        self.row = nn.Sequential(nn.Conv2d(3, 4, (1, 7), padding=(0, 3)), nn.Conv2d(4, 4, (7, 1), padding=(3, 0)))
        self.pool = unit(3, 4, 1)

    def forward(self, x: Any) -> Any:
        """f32[b, 3, h, w] -> f32[b, 18, h, w]"""
        pooled = self.pool(F.avg_pool2d(x, 3, 1, 1))
        return torch.cat([self.one(x), self.three(x), self.row(x), pooled], 1)


class ConvNext(nn.Module):
    """A block with a layer norm over channels, which go last for it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.deep = nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.norm, self.wide, self.narrow = nn.LayerNorm(8, eps=1e-6), nn.Linear(8, 32), nn.Linear(32, 8)
        self.scale = nn.Parameter(torch.full((8, 1, 1), 0.1))

    def forward(self, x: Any) -> Any:
        """f32[b, 3, h, w] -> f32[b, 8]"""
        x = self.stem(x)
        y = self.narrow(F.gelu(self.wide(self.norm(self.deep(x).permute(0, 2, 3, 1))))).permute(0, 3, 1, 2)
        return (x + self.scale * y).mean((-2, -1))


class UNet(nn.Module):
    """Down, up, joined."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.down = unit(1, 4), unit(4, 8)
        self.up, self.leave = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 1, 1)

    def forward(self, x: Any) -> Any:
        """f32[b, 1, h, w] -> f32[b, 1, h, w]"""
        a = self.enter(x)
        b = self.up(self.down(F.max_pool2d(a, 2)))
        return torch.sigmoid(self.leave(torch.cat([a, b], 1)))


class Segmentation(nn.Module):
    """As DeepLab: windows with gaps, a mean of all, and back to the image's size."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = unit(3, 8, stride=2)
        self.near = nn.Conv2d(8, 8, 3, padding=1)
        self.far = nn.Conv2d(8, 8, 3, padding=2, dilation=2)
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.ReLU())
        self.leave = nn.Conv2d(24, 4, 1)

    def forward(self, x: Any) -> Any:
        """f32[b, 3, h, w] -> {"out": f32[b, 4, h, w]}"""
        size = x.shape[-2:]
        x = self.stem(x)
        whole = F.interpolate(self.whole(x), size=x.shape[-2:], mode="bilinear", align_corners=False)
        x = self.leave(torch.cat([self.near(x), self.far(x), whole], 1))
        return {"out": F.interpolate(x, size=size, mode="bilinear", align_corners=False)}


class Detection(nn.Module):
    """Boxes and classes at each place of two maps, as SSD and RetinaNet have them, and the best ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = unit(3, 8, stride=2), unit(8, 8, stride=2)
        self.classes, self.boxes = nn.Conv2d(8, 2 * 3, 3, padding=1), nn.Conv2d(8, 2 * 4, 3, padding=1)
        self.lateral = nn.Conv2d(8, 8, 1)

    def forward(self, x: Any) -> Any:
        """f32[b, 3, 16, 16] -> {"boxes": f32[b, 5, 4], "scores": f32[b, 5], "labels": i64[b, 5]}"""
        fine = self.first(x)
        coarse = self.second(fine)
        fine = self.lateral(fine) + F.interpolate(coarse, scale_factor=2.0, mode="nearest")
        scores = torch.cat([self.flat(self.classes(m), 3) for m in (fine, coarse)], 1).softmax(-1)
        offsets = torch.cat([self.flat(self.boxes(m), 4) for m in (fine, coarse)], 1)
        centre, size = offsets[..., :2].sigmoid(), offsets[..., 2:].clamp(max=2.0).exp()
        boxes = torch.cat([centre - size / 2, centre + size / 2], -1).clamp(0.0, 1.0)
        best, labels = scores.max(-1)
        top, places = best.topk(5, dim=1)
        found = torch.gather(boxes, 1, places[..., None].expand(-1, -1, 4))
        return {"boxes": found, "scores": top, "labels": labels.gather(1, places)}

    @staticmethod
    def flat(x: Any, parts: int) -> Any:
        """f32[b, anchors * parts, h, w] -> f32[b, h * w * anchors, parts]"""
        b, _, h, w = x.shape
        return x.view(b, -1, parts, h, w).permute(0, 3, 4, 1, 2).reshape(b, -1, parts)


def autoencoder() -> Any:
    """Smaller, and larger again."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1),
        nn.LeakyReLU(0.1),
        nn.Conv2d(4, 8, 3, 2, 1),
        nn.ELU(),
        nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(4, 1, 4, 2, 1),
        nn.Tanh(),
    )


def super_resolution() -> Any:
    """An image of twice the size from four times the channels."""
    return nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.PReLU(), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2))


def fully_convolutional() -> Any:
    """An image of any size."""
    return nn.Sequential(
        unit(3, 8), nn.MaxPool2d(2), unit(8, 4), nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(4, 2, 1)
    )


def volumes() -> Any:
    """Convolutions and pools over three axes."""
    return nn.Sequential(
        nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2), nn.Flatten(), nn.Linear(72, 3)
    )
