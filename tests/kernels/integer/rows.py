"""One row for each op with an integer body: how to draw a graph of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.graph import Const, Graph
from jfuse.kernels import ops
from jfuse.kernels.core.integer_types import Rounding
from tests.kernels.integer.oracles import constant, one, tensor

Draw = Callable[[np.random.Generator], Graph]
ALL: tuple[Rounding, ...] = ("xnnpack", "reference", "tflm")
LITERT: tuple[Rounding, ...] = ("xnnpack", "reference")


@dataclass(frozen=True)
class Row:
    """draw: a graph of one equation. roundings: those whose runtime has the op. many: graphs of the slow test."""

    draw: Draw
    roundings: tuple[Rounding, ...] = ALL
    many: int = 4


def ratio(rng: np.random.Generator, least: float, greatest: float) -> float:
    """A number whose logarithm is drawn evenly."""
    return float(np.exp(rng.uniform(np.log(least), np.log(greatest))))


def zero_point(rng: np.random.Generator) -> int:
    """A zero point of i8, often at an end."""
    return int(rng.choice([-128, 127, 0, int(rng.integers(-128, 128))]))


def activation(rng: np.random.Generator) -> str:
    """A fused activation."""
    return str(rng.choice(["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]))


def bytes_of(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Weights: i8[shape] without -128."""
    return rng.integers(-127, 128, shape).astype(np.int8)


def bias_of(rng: np.random.Generator, size: int, scales: Any) -> Const | None:
    """Large and small numbers, or none."""
    if rng.random() < 0.2:
        return None
    return constant(rng.integers(-20000, 20000, size).astype(np.int32), scales)


def weight_scales(rng: np.random.Generator, size: int, *, channels: bool) -> Any:
    """One scale, or one for each channel."""
    return np.array([ratio(rng, 1e-3, 0.1) for _ in range(size if channels else 1)], np.float32)


def _fully_connected(rng: np.random.Generator) -> Graph:
    rows, terms, units = (int(rng.integers(1, n)) for n in (9, 1200, 9))
    x = tensor(rows, terms, scale=ratio(rng, 1e-3, 1), zero_point=zero_point(rng))
    scales = weight_scales(rng, units, channels=rng.random() < 0.5)
    step = float(x.type.quantization.scale[0]) * float(scales.mean())  # type: ignore[union-attr]
    y = tensor(rows, units, scale=step * ratio(rng, 0.5, 100 * terms), zero_point=zero_point(rng))
    bias = bias_of(rng, units, x.type.quantization.scale[0] * scales)  # type: ignore[union-attr]
    operands = (x, constant(bytes_of(rng, units, terms), scales), bias)
    return one(ops.fully_connected, operands, y, fused_activation_function=activation(rng))


def _elementwise(op: Any, greatest: float) -> Draw:
    def draw(rng: np.random.Generator) -> Graph:
        shape = tuple(int(n) for n in rng.integers(1, 9, 3))
        y = tensor(*shape, scale=ratio(rng, 1e-3, 1), zero_point=zero_point(rng))
        of = float(y.type.quantization.scale[0])  # type: ignore[union-attr]
        first = tensor(*shape, scale=of * ratio(rng, 2e-3, greatest), zero_point=zero_point(rng))
        scale = of * ratio(rng, 2e-3, greatest) if op is not ops.mul else ratio(rng, 1e-3, 1)
        if rng.random() < 0.3:
            shape = shape[-1:]
        second: Any = tensor(*shape, scale=scale, zero_point=zero_point(rng))
        if rng.random() < 0.3:
            second = constant(rng.integers(-128, 128, shape).astype(np.int8), scale, zero_point(rng))
        operands = (first, second) if rng.random() < 0.5 else (second, first)
        return one(op, operands, y, fused_activation_function=activation(rng))

    return draw


def _quantize(rng: np.random.Generator) -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 20, 2))
    dtype = str(rng.choice(["i8", "i16"]))
    x = tensor(*shape, dtype="f32")
    return one(ops.quantize, (x,), tensor(*shape, dtype=dtype, scale=ratio(rng, 1e-4, 1), zero_point=_zero(rng, dtype)))


def _requantize(rng: np.random.Generator) -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 20, 2))
    found, wanted = str(rng.choice(["i8", "i16"])), str(rng.choice(["i8", "i16"]))
    if (found, wanted) == ("i8", "i16"):
        found = "i16"
    step = ratio(rng, 1e-3, 1)
    scale = step * (ratio(rng, 0.01, 100) if found == "i8" else ratio(rng, 1e-3, 2))
    x = tensor(*shape, dtype=found, scale=scale, zero_point=_zero(rng, found))
    return one(ops.quantize, (x,), tensor(*shape, dtype=wanted, scale=step, zero_point=_zero(rng, wanted)))


def _dequantize(rng: np.random.Generator) -> Graph:
    shape = tuple(int(n) for n in rng.integers(1, 20, 2))
    dtype = str(rng.choice(["i8", "i16"]))
    x = tensor(*shape, dtype=dtype, scale=ratio(rng, 1e-4, 1), zero_point=_zero(rng, dtype))
    return one(ops.dequantize, (x,), tensor(*shape, dtype="f32"))


def _zero(rng: np.random.Generator, dtype: str) -> int:
    return zero_point(rng) if dtype == "i8" else 0


ROWS: dict[str, Row] = {
    "ADD": Row(_elementwise(ops.add, 100)),
    "DEQUANTIZE": Row(_dequantize),
    "FULLY_CONNECTED": Row(_fully_connected),
    "MUL": Row(_elementwise(ops.mul, 4)),
    "QUANTIZE": Row(_quantize),
    "QUANTIZE of integers": Row(_requantize),
    "SUB": Row(_elementwise(ops.sub, 100)),
}
