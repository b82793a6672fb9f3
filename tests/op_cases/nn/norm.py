"""Rows of lowering/ops/nn/norm.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, f32, given, weights

_INFERENCE: dict[str, Any] = {"is_training": False, "results": 3}  # the others are undefined in TensorFlow


def statistics(channels: int) -> list[Operand]:
    """Scale, offset, mean and variance as constants."""
    return [weights(channels)] * 3 + [Operand(DType.f32, (channels,), 0.5, 2, constant=True)]


def inputs(channels: int) -> list[Operand]:
    """The same as inputs."""
    return [f32(channels)] * 3 + [f32(channels, low=0.5, high=2)]


# Their squares sum without rounding: beside a bias of -8 a sum's last digit would be most of the difference.
_FOURTHS = np.random.default_rng(0).integers(-8, 9, (2, 3, 4, 6)) / 4
_EMPTY = const((), DType.f32)

CASES: tuple[Case, ...] = (
    case("FusedBatchNormV3", args=[f32(2, 3, 4, 5), *statistics(5)], dynamic=True, epsilon=1e-3, **_INFERENCE),
    case("FusedBatchNormV3", args=[f32(2, 3, 4, 5), *inputs(5)], dynamic=True, epsilon=1e-3, **_INFERENCE),
    case("FusedBatchNormV3", args=[f32(2, 5, 3, 4), *statistics(5)], dynamic=True, data_format="NCHW", **_INFERENCE),
    case("FusedBatchNormV3", args=[f32(2, 5, 3, 4), *inputs(5)], data_format="NCHW", **_INFERENCE),
    case("FusedBatchNormV3", args=[f32(2, 3, 4, 2, 5), *statistics(5)], data_format="NDHWC", **_INFERENCE),
    case("FusedBatchNormV3", args=[f32(2, 5, 3, 4, 2), *statistics(5)], data_format="NCDHW", **_INFERENCE),
    case("FusedBatchNormV3", args=[Operand(DType.f16, (2, 3, 4, 5), -2, 2), *statistics(5)], **_INFERENCE),
    case(
        "FusedBatchNormV3",
        args=[Operand(DType.bf16, (2, 3, 4, 5), -2, 2), *statistics(5)],
        tolerance=2**-7,  # a result may round to the neighbour of 8 bits
        **_INFERENCE,
    ),
    case(
        "FusedBatchNormV3",
        args=[Operand(DType.f16, (2, 3, 4, 5), -2, 2), weights(5), weights(5), _EMPTY, _EMPTY],
        tolerance=2**-10,  # a result may round to the neighbour of 11 bits
    ),
    case("FusedBatchNorm", args=[f32(2, 3, 4, 5), *statistics(5)], epsilon=1e-3, **_INFERENCE),
    case("FusedBatchNormV2", args=[f32(2, 3, 4, 5), *statistics(5)], epsilon=1e-3, **_INFERENCE),
    case("FusedBatchNorm", args=[f32(2, 3, 4, 5), weights(5), weights(5), _EMPTY, _EMPTY], dynamic=True),
    case("FusedBatchNormV2", args=[f32(2, 3, 4, 5), weights(5), weights(5), _EMPTY, _EMPTY], epsilon=1e-3),
    case("FusedBatchNormV3", args=[f32(2, 3, 4, 5), f32(5), f32(5), _EMPTY, _EMPTY], dynamic=True),
    case("FusedBatchNormV3", args=[f32(2, 3, 4, 5), *inputs(5)], dynamic=True, exponential_avg_factor=0.3),
    case(
        "FusedBatchNormV3",
        args=[f32(1, 4, 6, 1), weights(4), weights(4), _EMPTY, _EMPTY],
        data_format="NCHW",
        dynamic=True,
    ),
    case("LRN", args=[f32(2, 3, 4, 9)], dynamic=True),
    case("LRN", args=[f32(2, 3, 4, 6)], depth_radius=2, bias=2.0, alpha=0.3, beta=0.75),
    case("LRN", args=[f32(2, 3, 4, 3)], depth_radius=1, bias=1.0, alpha=1.0, beta=0.0),
    case("LRN", args=[f32(2, 3, 4, 6)], depth_radius=2, bias=0.5, alpha=1e-4, beta=1.0),
    case("LRN", args=[f32(2, 3, 4, 6)], depth_radius=2, bias=-40.0, alpha=1.0, beta=2.0),
    case("LRN", args=[f32(2, 3, 4, 6)], depth_radius=2, bias=-4.0, alpha=1.0, beta=0.0),
    case("LRN", args=[given(_FOURTHS)], depth_radius=2, bias=-8.0, alpha=1.0, beta=0.75),
)
