"""A small network of 8-bit integers, as converters write them, each operator at a node with a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Signature, Source, Var
from jfuse.ir.quantization import Quantization
from jfuse.kernels import ops
from tests.corpus.quantized import apply, floats, integers, weights

_WINDOW = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
_POOL = {"padding": "VALID", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}


def _at(node: str, op: Any, operands: Sequence[Atom], result: Var, **options: Any) -> Eqn:
    return replace(apply(op, operands, result, **options), source=Source(node))


def _bias(size: int, operand: Var, filters: Const) -> Const:
    """As converters write them: in the scales of the products, channel by channel."""
    assert operand.type.quantization is not None
    assert filters.quantization is not None
    scales = tuple(operand.type.quantization.scale[0] * s for s in filters.quantization.scale)
    drawn = np.random.default_rng(size).integers(-600, 600, size).astype(np.int32)
    return Const(drawn, quantization=Quantization(scales, (0,) * len(scales)))


def int8() -> Program:
    """Convolutions with a scale for each channel, a sum of two scales, a pool, and a head; floats outside."""
    image, answer = floats(1, 6, 6, 4), floats(1, 5)
    x = integers(1, 6, 6, 4, scale=0.02, zero_point=3)
    hidden = integers(1, 6, 6, 6, scale=0.03, zero_point=-128)
    deep = integers(1, 6, 6, 6, scale=0.04, zero_point=-5)
    total = integers(1, 6, 6, 6, scale=0.05, zero_point=-40)
    pooled = integers(1, 3, 3, 6, scale=0.05, zero_point=-40)
    flat = integers(1, 54, scale=0.05, zero_point=-40)
    narrow = integers(1, 54, scale=0.06, zero_point=-20)
    dense = integers(1, 5, scale=0.05, zero_point=7)
    chances = integers(1, 5, scale=1 / 256, zero_point=-128)
    filters = weights(6, 3, 3, 4, scale=np.linspace(0.002, 0.006, 6).tolist())
    windows = weights(1, 3, 3, 6, scale=np.linspace(0.003, 0.001, 6).tolist(), axis=3)
    rows = weights(5, 54, scale=0.001)
    eqns = (
        _at("in/Quantize", ops.quantize, (image,), x),
        _at(
            "stem/conv/Relu",
            ops.conv_2d,
            (x, filters, _bias(6, x, filters)),
            hidden,
            fused_activation_function="RELU",
            **_WINDOW,
        ),
        _at(
            "block/dw/BiasAdd",
            ops.depthwise_conv_2d,
            (hidden, windows, _bias(6, hidden, windows)),
            deep,
            depth_multiplier=1,
            **_WINDOW,
        ),
        _at("block/add", ops.add, (hidden, deep), total),
        _at("block/pool/AvgPool", ops.average_pool_2d, (total,), pooled, **_POOL),
        _at("head/Reshape", ops.reshape, (pooled, Const(np.array([1, 54], np.int32))), flat),
        _at("head/Requantize", ops.quantize, (flat,), narrow),
        _at("head/dense/MatMul", ops.fully_connected, (narrow, rows, _bias(5, narrow, rows)), dense),
        _at("head/Softmax", ops.softmax, (dense,), chances, beta=1.0),
        _at("out/Dequantize", ops.dequantize, (chances,), answer),
    )
    graph = Graph("main", (image,), eqns, (answer, total))
    return Program((Signature("main", graph, ("x0",), ("y0", "y1")),))
