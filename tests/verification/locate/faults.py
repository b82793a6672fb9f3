"""Faults that are put into models, one at a time: what changes one equation, or one signature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.ir.declared_types import is_stated
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Eqn, Graph, Program, Signature, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.ir.walk import substitute_graph
from jfuse.kernels import ops
from jfuse.tflite.write.distinct_outputs import prepare_outputs

Change = Callable[[Eqn], Eqn]


@dataclass(frozen=True)
class Fault:
    """A change of one equation of a model, by its node. step: the turn of a loop in which it shows first."""

    model: str
    node: str
    change: Change
    name: str
    step: int | None = None

    def __str__(self) -> str:
        return f"{self.model}-{self.name}"


def options(**changed: Any) -> Change:
    """Other options."""
    return lambda eqn: replace(eqn, params={**eqn.params, **changed})


def constant(place: int, change: Callable[[np.ndarray], Any]) -> Change:
    """Another constant operand, of the same dtype."""

    def changed(eqn: Eqn) -> Eqn:
        old = eqn.inputs[place]
        assert isinstance(old, Const)
        new = np.array(change(np.array(old.array)), old.array.dtype, order="C")
        const = Const(new, quantization=old.quantization)
        return replace(eqn, inputs=(*eqn.inputs[:place], const, *eqn.inputs[place + 1 :]))

    return changed


def scaled(place: int, change: Callable[[np.ndarray], Any] = np.asarray, zero_point: int = 0) -> Change:
    """Other scales of a constant operand, and a zero point that is moved by so much."""

    def changed(eqn: Eqn) -> Eqn:
        old = eqn.inputs[place]
        assert isinstance(old, Const)
        assert old.quantization is not None
        scale = tuple(np.broadcast_to(change(np.array(old.quantization.scale)), len(old.quantization.scale)).tolist())
        points = tuple(p + zero_point for p in old.quantization.zero_point)
        const = Const(old.array, quantization=replace(old.quantization, scale=scale, zero_point=points))
        return replace(eqn, inputs=(*eqn.inputs[:place], const, *eqn.inputs[place + 1 :]))

    return changed


def requantized(scale: float = 1.0, zero_point: int = 0) -> Change:
    """The result in another scale, so many times as large, and with a zero point that is moved by so much."""

    def changed(eqn: Eqn) -> Eqn:
        old = eqn.outputs[0].type
        assert old.quantization is not None
        scales = tuple(s * scale for s in old.quantization.scale)
        points = tuple(p + zero_point for p in old.quantization.zero_point)
        quantization = replace(old.quantization, scale=scales, zero_point=points)
        return replace(eqn, outputs=(Var(replace(old, quantization=quantization)),))

    return changed


def swapped(one: int, other: int) -> Change:
    """Two operands in each other's place."""

    def changed(eqn: Eqn) -> Eqn:
        inputs = list(eqn.inputs)
        inputs[one], inputs[other] = inputs[other], inputs[one]
        return replace(eqn, inputs=tuple(inputs))

    return changed


def operand(place: int, source: int) -> Change:
    """One operand a second time, in the place of another."""
    return lambda eqn: replace(
        eqn, inputs=tuple(eqn.inputs[source if i == place else i] for i in range(len(eqn.inputs)))
    )


def without(place: int) -> Change:
    """An optional operand left out."""
    return lambda eqn: replace(eqn, inputs=tuple(None if i == place else a for i, a in enumerate(eqn.inputs)))


def branches(eqn: Eqn) -> Eqn:
    """The branches of IF in each other's place."""
    return replace(eqn, bodies=eqn.bodies[::-1])


def becomes(op: Any, *more: np.ndarray, keep: int | None = None, **params: Any) -> Change:
    """Another op on the same operands, with more of them."""

    def changed(eqn: Eqn) -> Eqn:
        kept = eqn.inputs[:keep]
        return replace(eqn, op=op, inputs=(*kept, *map(Const, more)), params=op.bind_options(params))

    return changed


def broken(program: Program, node: str, change: Change) -> Program:
    """The program with the equation of a node changed, and typed anew, but where types are the file's word."""
    if any(is_stated(eqn) for s in program.signatures for eqn in s.graph.eqns):
        return program.with_graphs(lambda graph: _relinked(graph, node, change))
    signatures = []
    for s in program.signatures:
        graph = _changed(s.graph, node, change)
        retyped = trace_graph(lambda *args, g=graph: evaluate(g, args), [v.type for v in graph.inputs], graph.name)
        signatures.append(replace(s, graph=prepare_outputs(retyped, states=len(s.states))))
    return Program(tuple(signatures))


def _changed(graph: Graph, node: str, change: Change) -> Graph:
    eqns = []
    for eqn in graph.eqns:
        inner = replace(eqn, bodies=tuple(_changed(b, node, change) for b in eqn.bodies))
        eqns.append(change(inner) if eqn.source.node == node else inner)
    return replace(graph, eqns=tuple(eqns))


def _relinked(graph: Graph, node: str, change: Change) -> Graph:
    after = _changed(graph, node, change)
    pairs = (
        (a, b) for o, n in zip(graph.eqns, after.eqns, strict=True) for a, b in zip(o.outputs, n.outputs, strict=True)
    )
    return substitute_graph(after, {a: b for a, b in pairs if a is not b})


def with_signature(program: Program, change: Callable[[Signature], Signature]) -> Program:
    """The program with its one signature changed."""
    return Program((change(program.signatures[0]),))


def _permuted(order: tuple[int, ...]) -> Change:
    """The gates of an LSTM in another order: input weights, recurrent weights and biases."""

    def changed(eqn: Eqn) -> Eqn:
        inputs = list(eqn.inputs)
        for first in (1, 5, 12):
            inputs[first : first + 4] = [eqn.inputs[first + i] for i in order]
        return replace(eqn, inputs=tuple(inputs))

    return changed


def _rolled(amount: int = 1) -> Callable[[np.ndarray], np.ndarray]:
    return lambda a: np.roll(a, amount)


def _moved(*by: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda a: a + np.array(by)


def _multiplied(a: np.ndarray) -> np.ndarray:
    """Weights of a depthwise convolution with the multiplier before the channel."""
    return a.reshape(1, 3, 3, 4, 2).swapaxes(3, 4).reshape(a.shape)


def _aligned(eqn: Eqn) -> Eqn:
    return options(align_corners=True, half_pixel_centers=False)(eqn)


POOL: dict[str, Any] = {"padding": "VALID", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}

TABLE = [
    Fault("cnn", "stem/pad/Pad", constant(1, lambda a: a[:, ::-1]), "padding on the other side"),
    Fault("cnn", "stem/conv/Relu", options(padding="SAME"), "SAME for VALID"),
    Fault("cnn", "up/pool/AvgPool", options(stride_w=2), "stride of one axis"),
    Fault("cnn", "stem/conv/Relu", options(fused_activation_function="NONE"), "activation dropped"),
    Fault("cnn", "stem/conv/Relu", constant(1, lambda a: a.transpose(0, 2, 1, 3)), "height and width of a filter"),
    Fault("cnn", "stem/conv/Relu", constant(2, _rolled()), "bias of the next channel"),
    Fault("cnn", "block/conv/Conv2D", options(dilation_h_factor=2), "dilation"),
    Fault("cnn", "block/conv/Conv2D", constant(1, lambda a: a.transpose(3, 1, 2, 0)), "square filter transposed"),
    Fault("cnn", "block/conv/Conv2D", constant(1, lambda a: a[:, ::-1, ::-1]), "filter turned around"),
    Fault("cnn", "block/act/LeakyRelu", options(alpha=0.2), "alpha"),
    Fault("cnn", "block/dw/Relu6", options(fused_activation_function="RELU"), "clip missing"),
    Fault("cnn", "block/dw/Relu6", constant(1, _multiplied), "order of the multiplier"),
    Fault("cnn", "block/pool/MaxPool", becomes(ops.average_pool_2d, **POOL), "average for maximum"),
    Fault("cnn", "up/conv_transpose", constant(1, lambda a: np.roll(a, 1, axis=1)), "output offset"),
    Fault("cnn", "up/pool/AvgPool", options(filter_width=3), "filter of a pool"),
    Fault("cnn", "head/dense/MatMul", constant(1, lambda a: a.T), "square weights transposed"),
    Fault("cnn", "head/dense/MatMul", without(2), "bias dropped"),
    Fault("cnn", "head/act/Tanh", becomes(ops.logistic), "sigmoid for tanh"),
    Fault("cnn", "head/Softmax", options(beta=1.001), "a beta nearly right"),
    Fault("lstm", "rnn/lstm/while", _permuted((0, 2, 1, 3)), "gates permuted"),
    Fault("lstm", "rnn/lstm/while", constant(5, lambda a: a.T), "recurrent weights transposed"),
    Fault("lstm", "rnn/lstm/while", constant(13, lambda a: a + 1), "forget bias added twice"),
    Fault("lstm", "rnn/lstm/while", options(fused_activation_function="RELU"), "activation of a cell"),
    Fault("lstm", "rnn/lstm/while", options(cell_clip=0.5), "cell clip"),
    Fault("lstm", "rnn/bidirectional/while", swapped(18, 20), "gates of the way back permuted"),
    Fault("lstm", "rnn/last", constant(1, _moved(0, -1, 0)), "the step before the last"),
    Fault("lstm", "rnn/first", constant(1, _moved(0, 1, 0)), "the step after the first"),
    Fault("lstm", "rnn/concat", swapped(0, 1), "both ways in the other order"),
    Fault("lstm", "rnn/zero", becomes(ops.exp), "initial state"),
    Fault("gru", "gru/while/Less", constant(1, lambda a: a - 1), "a step too few", 6),
    Fault("gru", "gru/while/step", becomes(ops.gather, np.array(0, np.int32), keep=1), "the first step always", 1),
    Fault("gru", "gru/while/cell/MatMul_1", constant(1, lambda a: a[::-1]), "rows of the recurrent weights", 1),
    Fault("gru", "gru/while/cell/sub", swapped(0, 1), "operands of SUB", 0),
    Fault("gru", "gru/while/cell/sub", constant(0, lambda a: a + 1e-3), "a constant nearly right", 0),
    Fault("gru", "gru/while/cell/Tanh", becomes(ops.logistic), "sigmoid for tanh", 0),
    Fault("gru", "gru/while/cell/mul", operand(0, 1), "an operand taken twice", 1),
    Fault("gru", "gru/while/place", swapped(0, 1), "place of a row", 1),
    Fault("gru", "gate/Greater", becomes(ops.less), "comparison turned around"),
    Fault("gru", "gate/cond", branches, "branches swapped"),
    Fault("gru", "gate/then/mul", constant(1, lambda a: a + 0.01), "a factor within a branch"),
    Fault("gru", "gru/while/add", constant(1, lambda a: a * 2), "every other step", 0),
    Fault("chaotic", "map/while/mul_2", constant(1, lambda a: a * (1 + 1e-4)), "a factor amid chaos", 0),
    Fault("transformer", "block/norm/moments/mean", constant(1, lambda a: a - 1), "axis of a mean"),
    Fault("transformer", "block/norm/add", constant(1, lambda a: a * 1e-3), "epsilon"),
    Fault("transformer", "block/norm/gain", constant(1, _rolled()), "gain of the next channel"),
    Fault("transformer", "block/q/MatMul", constant(1, lambda a: a.T), "square weights transposed"),
    Fault("transformer", "block/scores/MatMul", options(adj_y=False), "missed transpose"),
    Fault("transformer", "block/scores/mul", constant(1, lambda a: a * a), "scale"),
    Fault("transformer", "block/mask/mul", constant(1, lambda a: a * 0), "mask of 0 for -1e9"),
    Fault("transformer", "block/mask/sub", swapped(0, 1), "operands of SUB"),
    Fault("transformer", "block/mix/MatMul", swapped(0, 1), "operands of a product"),
    Fault("transformer", "block/residual/add", becomes(ops.sub), "SUB for ADD"),
    Fault("transformer", "block/Gelu", options(approximate=True), "GELU by tanh for erf"),
    Fault("transformer", "block/down/MatMul", constant(2, lambda a: a * (1 + 1e-3)), "a bias nearly right"),
    Fault("transformer", "head/transpose", constant(1, lambda a: np.array([0, 1, 2])), "missed transpose"),
    Fault("text", "embed/GatherV2", constant(0, lambda a: np.roll(a, 1, axis=0)), "table off by one"),
    Fault("text", "sum/CumSum", options(exclusive=True), "exclusive sum"),
    Fault("text", "sum/SegmentSum", constant(1, lambda a: np.array([0, 0, 0, 1, 1, 2])), "segment ids"),
    Fault("text", "rank/Max", becomes(ops.reduce_min, np.array([1], np.int32), keep=1, keep_dims=True), "MIN for MAX"),
    Fault("text", "rank/sub", becomes(ops.add), "ADD for SUB"),
    Fault("text", "rank/div", constant(1, lambda a: a * (1 + 2e-4)), "a divisor nearly right"),
    Fault("text", "rank/Pow", constant(1, lambda a: a + 0.5), "power"),
    Fault("text", "rank/ArgMax", becomes(ops.arg_min, output_type=DType.i32), "least for largest"),
    Fault("text", "rank/OneHot", swapped(2, 3), "on and off value"),
    Fault("text", "rank/Less", constant(1, lambda a: -a), "threshold"),
    Fault("text", "rank/Select", swapped(1, 2), "sides of a choice"),
    Fault("text", "rank/stack", swapped(0, 1), "order of a stack"),
    Fault("text", "rank/concat_1", swapped(0, 1), "order of a concatenation"),
    Fault("image", "crop/Slice", constant(1, _moved(0, 0, 1, 0)), "crop off by one"),
    Fault("image", "scale/ResizeBilinear", options(half_pixel_centers=False), "half pixels"),
    Fault("image", "scale/ResizeBilinear", _aligned, "aligned corners"),
    Fault("image", "scale/ResizeNearest", options(half_pixel_centers=False), "half pixels of the nearest"),
    Fault("image", "pixels/StridedSlice", options(begin_mask=7), "begin mask"),
    Fault("image", "turn/ReverseV2", constant(1, lambda a: a - 1), "axis turned around"),
    Fault("image", "edge/MirrorPad", options(mode="SYMMETRIC"), "mode of a mirror"),
    Fault("image", "edge/PRelu", constant(1, lambda a: a[..., ::-1]), "slopes of other channels"),
    Fault("image", "halves/sub", swapped(0, 1), "operands of SUB"),
    Fault("image", "clip/Minimum", constant(1, lambda a: a * 8), "clip missing"),
    Fault("image", "levels/Round", becomes(ops.floor), "rounding"),
    Fault("image", "levels/FloorDiv", constant(1, lambda a: a - 1), "divisor"),
    Fault("image", "pixels/LRN", options(bias=1.002), "a bias of LRN nearly right"),
    Fault("image", "pixels/Mean", constant(1, lambda a: a + 1), "axis of a mean"),
    Fault("deep", "layer3/MatMul", constant(1, lambda a: a * (1 + 1e-4)), "weights nearly right, with growth after"),
    Fault("deep", "layer0/Tanh", becomes(ops.relu_n1_to_1), "another squashing, thirty layers before the end"),
    Fault("int8", "in/Quantize", requantized(zero_point=1), "zero point of the input"),
    Fault("int8", "in/Quantize", requantized(1.05), "scale of the input"),
    Fault("int8", "stem/conv/Relu", scaled(1, lambda a: np.roll(a, 1)), "scales of other channels"),
    Fault("int8", "stem/conv/Relu", scaled(1, np.max), "one scale for all channels"),
    Fault("int8", "stem/conv/Relu", constant(2, _rolled()), "bias of the next channel"),
    Fault("int8", "stem/conv/Relu", requantized(zero_point=99), "zero point of a result"),
    Fault("int8", "stem/conv/Relu", options(fused_activation_function="RELU6"), "clip of integers"),
    Fault("int8", "block/dw/BiasAdd", scaled(1, lambda a: a[::-1]), "scales turned around"),
    Fault("int8", "block/dw/BiasAdd", constant(1, lambda a: a.transpose(0, 2, 1, 3)), "height and width of a filter"),
    Fault("int8", "block/dw/BiasAdd", constant(2, lambda a: a // 2), "bias in another scale"),
    Fault("int8", "block/dw/BiasAdd", requantized(0.5), "scale of a result"),
    Fault("int8", "block/add", becomes(ops.sub), "SUB for ADD"),
    Fault("int8", "block/add", requantized(1.02), "scale of a sum nearly right"),
    Fault("int8", "head/Reshape", requantized(zero_point=20), "zero point for the same integers"),
    Fault("int8", "head/Requantize", requantized(0.1), "scale between scales"),
    Fault("int8", "head/dense/MatMul", scaled(1, zero_point=3), "zero point of weights"),
    Fault("int8", "head/dense/MatMul", scaled(1, lambda a: a * 1.1), "scale of weights"),
    Fault("int8", "head/dense/MatMul", constant(1, lambda a: a[::-1]), "rows of weights"),
    Fault("int8", "head/Softmax", options(beta=1.1), "a beta of integers"),
]
