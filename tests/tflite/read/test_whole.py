"""What files hold besides operators and their operands is kept: by load, text and save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import BadFlatbuffer, LowerError
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Const, Eqn, Graph, Program, Signature, Source, State, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import dense, f32, graph_of, program, signature
from tests.tflite.read.round_trip import round_trip

FOREIGN = b"by another program"


def packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def changed(source: Program, change: Callable[[Any], object]) -> bytes:
    model = schema.ModelT.InitFromPackedBuf(to_bytes(source), 0)
    model.description = FOREIGN
    change(model)
    return packed(model)


def read(data: bytes) -> Any:
    return schema.ModelT.InitFromPackedBuf(data, 0)


def test_description_and_metadata() -> None:
    def change(model: Any) -> None:
        entries = {"a b": bytes(range(40)), "small": b"xyz", "empty": b"", "min_runtime_version": b"9.9.9"}
        for name, contents in entries.items():
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(contents, np.uint8) if contents else None
            model.metadata.append(schema.MetadataT(name, len(model.buffers)))
            model.buffers.append(buffer)
        del model.metadata[0]

    data = changed(dense(), change)
    facts = round_trip(data).facts
    assert facts.description == FOREIGN.decode()
    assert {n: c.array.tobytes() for n, c in facts.metadata} == {
        "a b": bytes(range(40)),
        "small": b"xyz",
        "empty": b"",
        "min_runtime_version": b"9.9.9",
    }
    assert [m.name for m in read(to_bytes(load_tflite(data))).metadata] == [m.name for m in read(data).metadata]


def test_tensor_names_and_operator_versions() -> None:
    def change(model: Any) -> None:
        model.operatorCodes[0].version = 9
        for i, tensor in enumerate(model.subgraphs[0].tensors):
            tensor.name = f"tensor {i}"

    data = changed(dense(), change)
    eqn = round_trip(data).signatures[0].graph.eqns[0]
    assert (eqn.op.name, eqn.version) == ("fully_connected", 9)
    written = read(to_bytes(load_tflite(data)))
    assert [t.name for t in written.subgraphs[0].tensors] == [t.name for t in read(data).subgraphs[0].tensors]
    assert written.operatorCodes[0].version == 9


def three() -> Program:
    graphs = [graph_of(lambda x, n=n: ops.add(x, n), f32(2), name=f"add_{n}") for n in (1.0, 2.0, 3.0)]
    return Program(tuple(signature(g, f"key{i}") for i, g in enumerate(graphs)))


def test_subgraphs_without_a_signature_and_their_order() -> None:
    def change(model: Any) -> None:
        model.signatureDefs = [model.signatureDefs[2], model.signatureDefs[1]]

    data = changed(three(), change)
    program = round_trip(data)
    assert [s.key for s in program.signatures] == ["key2", "key1"]
    assert [s.graph.name for s in program.facts.uncalled] == ["add_1.0"]
    assert program.facts.order == (2, 1, 0)
    written = read(to_bytes(program))
    assert [s.name for s in written.subgraphs] == [b"add_1.0", b"add_2.0", b"add_3.0"]
    assert [(s.signatureKey, s.subgraphIndex) for s in written.signatureDefs] == [(b"key2", 2), (b"key1", 1)]


def test_results_that_are_inputs_constants_or_repeated() -> None:
    def change(model: Any) -> None:
        subgraph = model.subgraphs[0]
        subgraph.outputs = np.array([3, 0, 3, 1], np.int32)
        model.signatureDefs[0].outputs = [
            schema.TensorMapT(name, index) for name, index in (("a", 3), ("b", 0), ("c", 3), ("d", 1))
        ]
        subgraph.operators = subgraph.operators[:1]

    data = changed(dense(), change)
    graph = round_trip(data).signatures[0].graph
    assert len(graph.eqns) == 1
    assert (graph.outputs[0], graph.outputs[1]) == (graph.outputs[2], graph.inputs[0])


# Quantized tensors, by hand.


def quantized(array: np.ndarray, scale: float, zero_point: int = 0) -> Const:
    return Const(array, None, Quantization((scale,), (zero_point,)))


def integer_lstm(zero_point: int) -> Program:
    """An i8 LSTM whose states stay from call to call; the tensors between its gates are intermediates."""
    rng = np.random.default_rng(2)
    steps, width, cells = 3, 4, 5
    x = Var(TensorType((1, steps, width), DType.i8, Quantization((1 / 64,), (3,))), "x")
    hidden = Quantization((1 / 128,), (zero_point,))
    h = Var(TensorType((1, cells), DType.i8, hidden), "h")
    c = Var(TensorType((1, cells), DType.i16, Quantization((2.0**-12,), (0,))), "c")

    def weights(inputs: int) -> Const:
        return quantized(rng.integers(-127, 128, (cells, inputs), np.int8), 1 / 128)

    kernels = [*(weights(width) for _ in range(4)), *(weights(cells) for _ in range(4))]
    biases = [quantized(rng.integers(-500, 500, cells, np.int32), 1 / 8192) for _ in range(4)]
    operands = (x, *kernels, None, None, None, *biases, None, None, h, c)
    gate = TensorType((), DType.i16, Quantization((2.0**-12,), (0,)))
    between = (*(Var(gate) for _ in range(4)), Var(TensorType((), DType.i8, hidden)))
    results = (Var(TensorType((1, steps, cells), DType.i8, hidden), "y"), Var(h.type), Var(c.type))
    op = ops.unidirectional_sequence_lstm
    eqn = Eqn(op, (*operands, None, None, None, None), results, op.bind_options({}), Source("y"), intermediates=between)
    states = tuple(
        State(v.name or "", Const(np.full(v.shape, z, v.dtype), None, v.type.quantization), "tensor")
        for v, z in ((h, zero_point), (c, 0))
    )
    graph = Graph("main", (x, h, c), (eqn,), results)
    check_graph(graph)
    return Program((Signature("serving_default", graph, ("x",), ("y",), states),))


@pytest.mark.parametrize("zero_point", [0, -7])
def test_an_integer_lstm_keeps_its_states_in_place(zero_point: int) -> None:
    source = integer_lstm(zero_point)
    data = to_bytes(source)
    assert str(round_trip(data)) == str(source)
    model = read(data)
    (operator,) = model.subgraphs[0].operators
    tensors = model.subgraphs[0].tensors
    assert [tensors[i].type for i in operator.intermediates] == [schema.TensorType.INT16] * 4 + [schema.TensorType.INT8]
    assert [t.name for t in tensors if t.isVariable] == [b"h", b"c"]


def test_results_must_have_the_shapes_of_the_float_op() -> None:
    source = integer_lstm(0)
    graph = source.signatures[0].graph
    (eqn,) = graph.eqns
    wrong = replace(eqn, outputs=(Var(replace(eqn.outputs[0].type, shape=(1, 3, 6))), *eqn.outputs[1:]))
    with pytest.raises(Exception, match=r"has results of other types(.|\n)*expected  f32\[1,3,5\]"):
        check_graph(replace(graph, eqns=(wrong,), outputs=wrong.outputs))


def integer_dense(dtype: DType = DType.i8) -> Program:
    rng = np.random.default_rng(4)
    x = Var(TensorType((2, 8), DType.i8, Quantization((0.5,), (1,))), "x")
    weights = Const(
        rng.integers(-2, 2, (5, 8)).astype(dtype.numpy), "w", Quantization((0.1,) * 5, (0,), 0, (-1.0,), (1.0,))
    )
    bias = Const(rng.integers(-99, 99, 5, np.int32), "b", Quantization((0.05,) * 5, (0,)))
    y = Var(TensorType((2, 5), DType.i8, Quantization((2.0,), (-4,))), "y")
    eqn = Eqn(ops.fully_connected, (x, weights, bias), (y,), ops.fully_connected.bind_options({}), Source("y"))
    return Program((signature(Graph("main", (x,), (eqn,), (y,))),))


def weights_of(model: Any) -> Any:
    return next(t for t in model.subgraphs[0].tensors if t.name == b"w")


@pytest.mark.parametrize("dtype", [DType.i8, DType.i4, DType.i2])
def test_quantization_is_kept_bit_for_bit(dtype: DType) -> None:
    source = integer_dense(dtype)
    assert str(round_trip(to_bytes(source))) == str(source)
    table = weights_of(read(to_bytes(source))).quantization
    assert table.scale.tolist() == [np.float32(0.1)] * 5
    assert (table.zeroPoint.tolist(), table.min.tolist(), table.max.tolist()) == ([0] * 5, [-1.0], [1.0])


BROKEN: dict[str, tuple[Callable[[Any], object], str]] = {
    "axis": (lambda q: setattr(q, "quantizedDimension", 2), "quantized along an axis that it lacks"),
    "negative axis": (lambda q: setattr(q, "quantizedDimension", -1), "quantized along an axis that it lacks"),
    "scales": (lambda q: setattr(q, "quantizedDimension", 1), "not one scale for each index of axis 1"),
    "zero points": (lambda q: setattr(q, "zeroPoint", np.zeros(3, np.int64)), "another number of zero points"),
    "details": (
        lambda q: vars(q).update(detailsType=1, details=schema.CustomQuantizationT()),
        "in a way that jfuse does not know",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_quantization_that_does_not_fit(name: str) -> None:
    change, message = BROKEN[name]
    with pytest.raises((BadFlatbuffer, LowerError), match=rf"{message}[^\n]* at .*subgraph 0 tensor 1 'w'"):
        load_tflite(changed(integer_dense(), lambda m: change(weights_of(m).quantization)))


def in_blocks(scales: np.ndarray) -> bytes:
    """A dense layer with i4 weights in blocks of 32."""
    rng = np.random.default_rng(6)
    weights = rng.integers(-8, 8, (3, 64)).astype(DType.i4.numpy)
    x, y = Var(f32(2, 64), "x"), Var(f32(2, 3), "y")
    blocks = Quantization((), (), block_size=32, block_scale=tuple(scales.ravel().tolist()))
    params = ops.fully_connected.bind_options({})
    eqn = Eqn(ops.fully_connected, (x, Const(weights, "w", blocks), None), (y,), params)
    return to_bytes(Program((signature(Graph("main", (x,), (eqn,), (y,))),)))


def test_quantization_in_blocks() -> None:
    scales = np.linspace(0.01, 0.06, 6).astype(np.float16).astype(np.float32)
    data = in_blocks(scales)
    model = read(data)
    details = weights_of(model).quantization.details
    table = model.subgraphs[0].tensors[details.scales]
    assert (details.blockSize, details.zeroPoints, table.shape.tolist()) == (32, -1, [3, 2])
    loaded = load_tflite(data)
    assert to_bytes(loaded) == data
    weights = loaded.signatures[0].graph.eqns[0].inputs[1]
    assert weights is not None
    assert weights.type.quantization == Quantization((), (), block_size=32, block_scale=tuple(scales.tolist()))

    def change(model: Any) -> None:
        weights_of(model).quantization.details.blockSize = 24

    broken = read(data)
    change(broken)
    with pytest.raises(BadFlatbuffer, match=r"the blocks do not fill the tensor at .*'w'"):
        load_tflite(packed(broken))


def test_long_scales_print_by_digest() -> None:
    scale = tuple(np.linspace(0.1, 0.2, 40, dtype=np.float32).tolist())
    x = TensorType((2, 40), DType.i8, Quantization(scale, (0,), 1))
    assert str(x).startswith("i8[2,40]{scale=const<f32[40] 160B ")
    assert str(x).endswith("> zero_point=(0,) axis=1}")
    source = program(lambda v: ops.reshape(v, [2, 40]), TensorType((2, 40), DType.i8))
    graph = source.signatures[0].graph
    (eqn,) = graph.eqns
    outer = Var(x, "x0")
    graph = replace(graph, inputs=(outer,), eqns=(replace(eqn, inputs=(outer, eqn.inputs[1])),))
    round_trip(to_bytes(Program((signature(graph),))))
