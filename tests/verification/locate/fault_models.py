"""Small models of ops of TFLite, each op at a node with a name: what faults are put into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jfuse.ir.graph import Const, Graph, Program, Signature, Source, State
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import if_, while_
from jfuse.passes.context import Context
from jfuse.passes.states.placement import place_states
from jfuse.tflite.write.distinct_outputs import prepare_outputs


def at(node: str, op: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    """The op applied at a node of that name."""
    with at_source(Source(node)):
        return op(*operands, **options)


def numbers(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Normal random numbers."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def f32(*shape: int) -> TensorType:
    """A float type."""
    return TensorType(shape, DType.f32)


def model(function: Callable[..., Any], *inputs: TensorType, states: tuple[State, ...] = ()) -> Program:
    """A program of one signature, whose states come last."""
    graph = trace_graph(function, [*inputs, *(s.initial.type for s in states)])
    names = tuple(f"x{i}" for i in range(len(inputs)))
    outputs = tuple(f"y{i}" for i in range(len(graph.outputs) - len(states)))
    signature = Signature("main", prepare_outputs(graph, states=len(states)), names, outputs, states)
    return Program((signature,))


def cnn() -> Program:
    """Convolutions of all kinds, pools, and a head on the mean."""

    def main(x: Any) -> Any:
        x = at("stem/pad/Pad", ops.pad, x, [[0, 0], [1, 0], [1, 0], [0, 0]])
        x = at(
            "stem/conv/Relu",
            ops.conv_2d,
            x,
            numbers(1, 4, 3, 3, 3),
            numbers(2, 4),
            padding="VALID",
            stride_w=2,
            stride_h=2,
            fused_activation_function="RELU",
        )
        x = at(
            "block/conv/Conv2D",
            ops.conv_2d,
            x,
            numbers(3, 4, 3, 3, 4, scale=0.2),
            numbers(4, 4),
            padding="SAME",
            stride_w=1,
            stride_h=1,
        )
        x = at("block/act/LeakyRelu", ops.leaky_relu, x, alpha=0.1)
        x = at(
            "block/dw/Relu6",
            ops.depthwise_conv_2d,
            x,
            numbers(5, 1, 3, 3, 8),
            numbers(6, 8),
            padding="SAME",
            stride_w=1,
            stride_h=1,
            depth_multiplier=2,
            fused_activation_function="RELU6",
        )
        pool = {"padding": "VALID", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
        x = at("block/pool/MaxPool", ops.max_pool_2d, x, **pool)
        x = at(
            "up/conv_transpose",
            ops.transpose_conv,
            [1, 4, 4, 5],
            numbers(7, 5, 3, 3, 8, scale=0.3),
            x,
            numbers(8, 5),
            padding="SAME",
            stride_w=2,
            stride_h=2,
        )
        x = at("up/pool/AvgPool", ops.average_pool_2d, x, **{**pool, "padding": "SAME", "stride_w": 1, "stride_h": 1})
        x = at("head/mean/Mean", ops.mean, x, [1, 2])
        x = at("head/dense/MatMul", ops.fully_connected, x, numbers(9, 5, 5, scale=0.5), numbers(10, 5))
        x = at("head/act/Tanh", ops.tanh, x)
        x = at("head/logits/MatMul", ops.fully_connected, x, numbers(11, 4, 5))
        return at("head/Softmax", ops.softmax, x)

    return model(main, f32(1, 9, 9, 3))


def _cell(seed: int, units: int, features: int) -> list[Any]:
    inputs = [numbers(seed + i, units, features, scale=0.7) for i in range(4)]
    recurrent = [numbers(seed + 4 + i, units, units, scale=0.5) for i in range(4)]
    return [*inputs, *recurrent, None, None, None, *(numbers(seed + 8 + i, units) for i in range(4)), None, None]


def lstm() -> Program:
    """An LSTM, a bidirectional one, and a head on the last steps; states start from zeros that operators write."""

    def main(x: Any) -> Any:
        row = at("rnn/rows", ops.strided_slice, x, [0, 0, 0], [2, 1, 1], [1, 1, 1], shrink_axis_mask=2)
        zero = at("rnn/zero", ops.zeros_like, row)
        start = [at(f"rnn/zeros_{i}", ops.tile, zero, [1, 4]) for i in range(6)]
        x, _, _ = at("rnn/lstm/while", ops.unidirectional_sequence_lstm, x, *_cell(20, 4, 3), *start[:2])
        operands = [x, *_cell(40, 4, 4), *_cell(60, 4, 4), *start[2:]]
        forward, backward, *_ = at("rnn/bidirectional/while", _both_ways, operands)
        last = at(
            "rnn/last", ops.strided_slice, forward, [0, -1, 0], [2, 0, 4], [1, 1, 1], end_mask=2, shrink_axis_mask=2
        )
        first = at("rnn/first", ops.strided_slice, backward, [0, 0, 0], [2, 1, 4], [1, 1, 1], shrink_axis_mask=2)
        x = at("rnn/concat", ops.concatenation, last, first, axis=1)
        return at("head/dense/MatMul", ops.fully_connected, x, numbers(80, 3, 8), numbers(81, 3))

    return model(main, f32(2, 6, 3))


def _both_ways(operands: list[Any]) -> Any:
    x, *rest = operands
    forward, backward, states = rest[:17], rest[17:34], rest[34:38]
    return ops.bidirectional_sequence_lstm(x, *forward, *backward, *states, time_major=False, merge_outputs=False)


STEPS = 7


def gru() -> Program:
    """A gated loop over the steps of its input, whose result goes through a branch."""
    weights, recurrent, bias = numbers(90, 12, 3), numbers(91, 12, 4, scale=0.5), numbers(92, 12)

    def cond(i: Any, h: Any, ys: Any, x: Any) -> Any:
        return at("gru/while/Less", ops.less, i, np.int32(STEPS))

    def body(i: Any, h: Any, ys: Any, x: Any) -> Any:
        step = at("gru/while/step", ops.gather, x, i)
        wx = at("gru/while/cell/MatMul", ops.fully_connected, step, weights, bias)
        uh = at("gru/while/cell/MatMul_1", ops.fully_connected, h, recurrent)
        xz, xr, xh = at("gru/while/cell/split", ops.split, np.int32(1), wx, num_splits=3)
        hz, hr, hh = at("gru/while/cell/split_1", ops.split, np.int32(1), uh, num_splits=3)
        z = at("gru/while/cell/Sigmoid", ops.logistic, at("gru/while/cell/add", ops.add, xz, hz))
        r = at("gru/while/cell/Sigmoid_1", ops.logistic, at("gru/while/cell/add_1", ops.add, xr, hr))
        new = at("gru/while/cell/mul", ops.mul, r, hh)
        new = at("gru/while/cell/Tanh", ops.tanh, at("gru/while/cell/add_2", ops.add, xh, new))
        kept = at("gru/while/cell/mul_1", ops.mul, z, h)
        rest = at("gru/while/cell/sub", ops.sub, np.float32(1), z)
        h = at("gru/while/cell/add_3", ops.add, kept, at("gru/while/cell/mul_2", ops.mul, rest, new))
        row = at("gru/while/row", ops.expand_dims, h, np.int32(0))
        place = at("gru/while/place", ops.pack, i, np.int32(0), np.int32(0), axis=0)
        ys = at("gru/while/write", ops.dynamic_update_slice, ys, row, place)
        return at("gru/while/add", ops.add, i, np.int32(1)), h, ys, x

    def main(x: Any) -> Any:
        types = [TensorType((), DType.i32), f32(2, 4), f32(STEPS, 2, 4), f32(STEPS, 2, 3)]
        graphs = [trace_graph(f, types, n) for f, n in ((cond, "gru_cond"), (body, "gru_body"))]
        start = [np.int32(0), np.zeros((2, 4), np.float32), np.zeros((STEPS, 2, 4), np.float32), x]
        with at_source(Source("gru/while")):
            _, h, ys, _ = while_([np.asarray(v) if v is not x else v for v in start], graphs)
        total = at("gate/sum", ops.sum_, h, [0, 1])
        flag = at("gate/Greater", ops.greater, total, np.float32(-100))
        branches = [trace_graph(f, [f32(2, 4)], n) for f, n in ((_louder, "then"), (_softer, "other"))]
        with at_source(Source("gate/cond")):
            (gated,) = if_([flag, h], branches)
        return at("head/dense/MatMul", ops.fully_connected, gated, numbers(93, 3, 4)), ys

    return model(main, f32(STEPS, 2, 3))


def _louder(h: Any) -> Any:
    return at("gate/then/Exp", ops.exp, at("gate/then/mul", ops.mul, h, np.float32(1.5)))


def _softer(h: Any) -> Any:
    return at("gate/else/mul", ops.mul, h, np.float32(0.5))


def transformer() -> Program:
    """A block of attention with a mask, then a feed-forward part."""

    def norm(name: str, x: Any, seed: int) -> Any:
        centre = at(f"{name}/moments/mean", ops.mean, x, [2], keep_dims=True)
        x = at(f"{name}/sub", ops.sub, x, centre)
        spread = at(f"{name}/moments/variance", ops.mean, at(f"{name}/Square", ops.square, x), [2], keep_dims=True)
        root = at(f"{name}/Rsqrt", ops.rsqrt, at(f"{name}/add", ops.add, spread, np.float32(1e-3)))
        x = at(f"{name}/mul", ops.mul, x, root)
        x = at(f"{name}/gain", ops.mul, x, 1 + numbers(seed, 8, scale=0.3))
        return at(f"{name}/bias", ops.add, x, numbers(seed + 1, 8))

    def dense(name: str, x: Any, seed: int, rows: int, columns: int) -> Any:
        weights = numbers(seed, rows, columns, scale=columns**-0.5)
        return at(f"{name}/MatMul", ops.fully_connected, x, weights, numbers(seed + 1, rows), keep_num_dims=True)

    def main(x: Any, mask: Any) -> Any:
        y = norm("block/norm", x, 100)
        q, k, v = (dense(f"block/{n}", y, 102 + 2 * i, 8, 8) for i, n in enumerate("qkv"))
        scores = at("block/scores/MatMul", ops.batch_matmul, q, k, adj_y=True)
        scores = at("block/scores/mul", ops.mul, scores, np.float32(8**-0.5))
        hidden = at("block/mask/sub", ops.sub, np.float32(1), mask)
        scores = at("block/mask/add", ops.add, scores, at("block/mask/mul", ops.mul, hidden, np.float32(-1e9)))
        scores = at("block/Softmax", ops.softmax, scores)
        y = at("block/mix/MatMul", ops.batch_matmul, scores, v)
        x = at("block/residual/add", ops.add, x, dense("block/out", y, 110, 8, 8))
        y = dense("block/up", norm("block/norm_1", x, 120), 122, 12, 8)
        y = at("block/Gelu", ops.gelu, y, approximate=False)
        x = at("block/residual_1/add", ops.add, x, dense("block/down", y, 124, 8, 12))
        x = at("head/transpose", ops.transpose, x, [0, 2, 1])
        return at("head/l2_normalize", ops.l2_normalization, x)

    return model(main, f32(1, 8, 8), f32(1, 1, 8))


def text() -> Program:
    """Ids that are looked up, summed, ranked and counted."""

    def main(ids: Any) -> Any:
        x = at("embed/GatherV2", ops.gather, numbers(130, 12, 4), ids)
        runs = at("sum/CumSum", ops.cumsum, x, np.int32(0))
        sums = at("sum/SegmentSum", ops.segment_sum, x, np.array([0, 0, 1, 1, 2, 2], np.int32))
        largest = at("rank/Max", ops.reduce_max, sums, [1], keep_dims=True)
        ratio = at("rank/div", ops.div, at("rank/sub", ops.sub, sums, largest), np.float32(3))
        power = at("rank/Pow", ops.pow_, at("rank/Abs", ops.abs_, ratio), np.float32(1.5))
        top, places = at("rank/TopKV2", ops.topk_v2, runs, np.int32(2))
        best = at("rank/ArgMax", ops.arg_max, runs, np.int32(1), output_type=DType.i32)
        hot = at("rank/OneHot", ops.one_hot, best, np.int32(4), np.float32(1), np.float32(0))
        near = at("rank/Less", ops.less, top, np.float32(0.5))
        chosen = at("rank/Select", ops.select_v2, near, top, np.float32(2))
        whole = at("rank/Cast", ops.cast, places, out_data_type=DType.f32)
        parts = at("rank/unstack", ops.unpack, hot, axis=0)
        again = at("rank/stack", ops.pack, parts[5], parts[0], parts[3], axis=0)
        joined = at("rank/concat", ops.concatenation, power, again, axis=0)
        return joined, at("rank/concat_1", ops.concatenation, chosen, whole, axis=1)

    return model(main, TensorType((6,), DType.i32))


def image() -> Program:
    """Pictures cut, turned, scaled and rounded."""

    def main(x: Any) -> Any:
        x = at("crop/Slice", ops.slice_, x, [0, 1, 2, 0], [1, 4, 4, 4])
        x = at("scale/ResizeBilinear", ops.resize_bilinear, x, [6, 6], align_corners=False, half_pixel_centers=True)
        near = at("scale/ResizeNearest", ops.resize_nearest_neighbor, x, [4, 4], half_pixel_centers=True)
        x = at("cut/StridedSlice", ops.strided_slice, x, [0, 1, 1, 0], [1, 5, 5, 4], [1, 1, 1, 1], begin_mask=1)
        x = at("turn/ReverseV2", ops.reverse_v2, x, [2])
        x = at("turn/add", ops.add, x, at("scale/mul", ops.mul, near, np.float32(0.25)))
        x = at("edge/MirrorPad", ops.mirror_pad, x, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
        x = at("edge/PRelu", ops.prelu, x, np.array([[[0.1, 0.2, 0.3, 0.4]]], np.float32))
        a, b = at("halves/split", ops.split, np.int32(3), x, num_splits=2)
        x = at("halves/sub", ops.sub, a, b)
        x = at("clip/Minimum", ops.minimum, at("clip/Maximum", ops.maximum, x, np.float32(-1)), np.float32(0.5))
        x = at("levels/mul", ops.mul, x, np.float32(8))
        x = at("levels/Round", ops.round_, x)
        x = at("levels/Cast", ops.cast, x, out_data_type=DType.i32)
        x = at("levels/FloorDiv", ops.floor_div, x, np.int32(3))
        x = at("levels/Cast_1", ops.cast, x, out_data_type=DType.f32)
        x = at("pixels/SpaceToDepth", ops.space_to_depth, x, block_size=2)
        x = at("pixels/LRN", ops.local_response_normalization, x, radius=2, bias=1.0, alpha=0.1, beta=0.5)
        x = at("pixels/HardSwish", ops.hard_swish, x)
        x = at("pixels/Mean", ops.mean, x, [1], keep_dims=False)
        ends = [[0, 0, 1], [1, 3, 8], [1, 1, 2]]
        return at("pixels/StridedSlice", ops.strided_slice, x, *ends, begin_mask=3, end_mask=3)

    return model(main, f32(1, 6, 7, 4))


def streaming() -> Program:
    """A running total and an LSTM, which both go on where the last call ended."""
    cell = _cell(140, 4, 3)

    def main(x: Any, total: Any, h: Any, c: Any) -> Any:
        summed = at("total/sum", ops.sum_, x, [0])
        total = at("total/AssignAdd", ops.add, total, summed)
        y, h, c = at("rnn/lstm/while", ops.unidirectional_sequence_lstm, x, *cell, h, c, time_major=True)
        y = at("head/dense/MatMul", ops.fully_connected, y, numbers(160, 3, 4), keep_num_dims=True)
        return at("head/add", ops.add, y, total), total, h, c

    zeros = [Const(np.zeros((2, n), np.float32)) for n in (3, 4, 4)]
    states = tuple(State(n, v) for n, v in zip(("total", "h", "c"), zeros, strict=True))
    return place_states(model(main, f32(3, 2, 3), states=states), Context())


def deep(gain: float = 1.2, layers: int = 30) -> Program:
    """A stack of layers; with a large gain their tanh saturate, and what is small grows."""

    def main(x: Any) -> Any:
        for i in range(layers):
            x = at(f"layer{i}/MatMul", ops.fully_connected, x, numbers(200 + i, 8, 8, scale=gain * 8**-0.5))
            x = at(f"layer{i}/Tanh", ops.tanh, x)
        return x

    return model(main, f32(2, 8))


def chaotic(steps: int = 60) -> Program:
    """A recurrence that takes numbers apart more than tenfold in each step: rounding becomes everything.

    x -> 4 * frac(40 * logistic(x)) - 2 has a slope of at least 16.8 wherever it is smooth, as x stays in [-2, 2]. So no
    orbit attracts others; where one does, the result depends on how a processor rounds on the way there.
    """

    def cond(i: Any, x: Any) -> Any:
        return at("map/while/Less", ops.less, i, np.int32(steps))

    def body(i: Any, x: Any) -> Any:
        value = at("map/while/mul", ops.mul, at("map/while/Sigmoid", ops.logistic, x), np.float32(40))
        value = at("map/while/sub", ops.sub, value, at("map/while/Floor", ops.floor, value))
        value = at("map/while/mul_2", ops.mul, value, np.float32(4))
        return at("map/while/add", ops.add, i, np.int32(1)), at("map/while/sub_1", ops.sub, value, np.float32(2))

    def main(x: Any) -> Any:
        types = [TensorType((), DType.i32), f32(2, 3)]
        graphs = [trace_graph(f, types, n) for f, n in ((cond, "map_cond"), (body, "map_body"))]
        with at_source(Source("map/while")):
            return while_([np.asarray(np.int32(0)), x], graphs)[1]

    return model(main, f32(2, 3))


def graph_of(program: Program) -> Graph:
    """The one graph of a program."""
    return program.signatures[0].graph
