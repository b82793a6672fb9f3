"""Models of torchvision itself, with random weights and small inputs: what each family needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torchvision import models

NO_WEIGHTS = {"weights": None, "weights_backbone": None}
FEW_BOXES = {"num_classes": 4, "topk_candidates": 20, "detections_per_img": 10, "min_size": 64, "max_size": 64}


@dataclass(frozen=True)
class VisionModel:
    """A model, its input, and at most how many transposes its file has.

    error: beside the largest result. Normalizations over random weights magnify what rounding does: PyTorch in f32 is
    as far from itself in f64 (2.6e-5 for a ResNet-50, measured).
    """

    make: Callable[[], Any]
    shape: tuple[int, ...]
    transposes: int
    error: float = 1e-5


class FirstImage(torch.nn.Module):
    """A detector of one image."""

    def __init__(self, detector: Any) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, x: Any) -> Any:
        """f32[3, h, w] -> boxes, scores, labels"""
        return self.detector([x])[0]


def classifier(name: str, **options: Any) -> Callable[[], Any]:
    """A model of ten classes."""
    return lambda: models.get_model(name, weights=None, num_classes=10, **options)


def maxvit() -> Any:
    """Two stages of one block each, for images of 64 pixels."""
    small = {"stem_channels": 8, "partition_size": 2, "block_channels": [8, 16], "block_layers": [1, 1], "head_dim": 4}
    return models.MaxVit(input_size=IMAGE[2:], stochastic_depth_prob=0.0, num_classes=10, **small)


def retinanet() -> Any:
    """One detector, whose scores differ: its last layers give numbers of a few units."""
    return FirstImage(models.detection.retinanet_resnet50_fpn(**NO_WEIGHTS, **FEW_BOXES))


IMAGE, VIDEO = (1, 3, 64, 64), (1, 3, 4, 32, 32)
MODELS = {
    "squeezenet": VisionModel(classifier("squeezenet1_1"), IMAGE, 1),
    "resnet": VisionModel(classifier("resnet18"), IMAGE, 1, 5e-5),
    "mobilenet-v3": VisionModel(classifier("mobilenet_v3_small"), IMAGE, 1),
    "mnasnet": VisionModel(classifier("mnasnet0_5"), IMAGE, 1, 5e-5),
    "regnet": VisionModel(classifier("regnet_y_400mf"), IMAGE, 1, 1e-4),
    "efficientnet": VisionModel(classifier("efficientnet_b0"), IMAGE, 1),
    "shufflenet": VisionModel(classifier("shufflenet_v2_x0_5"), IMAGE, 17, 1e-4),
    "vit": VisionModel(lambda: models.VisionTransformer(32, 8, 2, 4, 32, 64), (1, 3, 32, 32), 9),
    "maxvit": VisionModel(maxvit, IMAGE, 33),
    "lraspp": VisionModel(lambda: models.segmentation.lraspp_mobilenet_v3_large(**NO_WEIGHTS), IMAGE, 2, 5e-5),
    "video": VisionModel(lambda: models.video.mc3_18(weights=None, num_classes=10), VIDEO, 1, 5e-5),
    "retinanet": VisionModel(retinanet, (3, 64, 64), 17, 1e-4),
}


def awake(model: VisionModel) -> Any:
    """The module with moments of random data and no constant weights, so that another input changes its results."""
    torch.manual_seed(0)
    module, generator = model.make().eval(), torch.Generator().manual_seed(1)
    for weights in module.parameters():
        if float(weights.detach().std(unbiased=False)) < 1e-8:
            weights.data += 0.3 * torch.randn(weights.shape, generator=generator)
    _with_moments(module, model.shape, generator)
    _with_calm_heads(module, model.shape, generator)
    return module


def _with_moments(module: Any, shape: tuple[int, ...], generator: Any) -> None:
    norms = [part for part in module.modules() if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.train()
        norm.momentum = None  # the mean of all that it sees
        norm.reset_running_stats()
    images = torch.randn(4, *shape[-3:] if len(shape) < 5 else shape[1:], generator=generator)
    with torch.no_grad():
        module.detector(list(images)) if isinstance(module, FirstImage) else module(images)
    module.eval()


def _with_calm_heads(module: Any, shape: tuple[int, ...], generator: Any) -> None:
    """Layers of a detector's heads give a deviation of 2 for logits and of 0.5 for boxes: scores that differ."""
    heads = {"cls_logits": 2.0, "bbox_reg": 0.5}
    found = [
        (part, heads[name.split(".")[-1]]) for name, part in module.named_modules() if name.split(".")[-1] in heads
    ]
    for part, wanted in found:
        given: list[float] = []
        with part.register_forward_hook(lambda _, __, result, given=given: given.append(float(result.std()))):
            with torch.no_grad():
                module(torch.rand(shape, generator=generator))
        part.weight.data *= wanted / max(given)
        part.bias.data.zero_()
