"""The exported bytes, read with the schema's own module, and run."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import JfuseError, LowerError
from jfuse.base.files import write_atomic
from jfuse.ir.graph import Const, Program, Source, Var
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.quantization.recipe import QuantizeRule, Recipe
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import file_parts, to_bytes
from tests.passes.quantize.models import calibrated, drawn, program_of
from tests.tflite import programs
from tests.tflite.programs import BATCH, BIAS, KEY, WEIGHTS, dense, f32, graph_of, i32, program, signature

ROOT = Path(__file__).parents[3]


def read(source: Program) -> Any:
    return schema.ModelT.InitFromPackedBuf(to_bytes(source), 0)


def builtins(model: Any) -> list[int]:
    codes = [code.builtinCode for code in model.operatorCodes]
    return [codes[operator.opcodeIndex] for operator in model.subgraphs[0].operators]


def test_the_file_level() -> None:
    data = to_bytes(dense())
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    assert data[4:8] == b"TFL3"
    assert (model.version, model.description) == (3, b"jfuse")
    assert model.buffers[0].data is None
    assert [(m.name, model.buffers[m.buffer].data.tobytes()) for m in model.metadata] == [
        (b"min_runtime_version", b"1.5.0".ljust(16, b"\0"))
    ]


def test_one_equation_is_one_operator() -> None:
    model = read(dense())
    names = schema.BuiltinOperator
    assert builtins(model) == [names.FULLY_CONNECTED, names.RELU, names.RESHAPE, names.RESHAPE]


def test_operator_codes_are_unique_and_carry_the_old_field() -> None:
    def main(x: Any, y: Any) -> Any:
        wide = ops.broadcast_to(x, [4, 3])
        return ops.add(wide, 1.0), ops.add(y, 1), ops.add(wide, 2.0), ops.add(y, ops.add(y, y))

    codes = read(program(main, f32(3), TensorType((2,), DType.i64))).operatorCodes
    found = {(c.builtinCode, c.deprecatedBuiltinCode, c.version) for c in codes}
    assert len(codes) == len(found)
    assert found == {(130, 127, 2), (0, 0, 1), (0, 0, 4)}  # BROADCAST_TO, ADD of f32, ADD of i64


def test_options_are_written() -> None:
    x = f32(1, 6)
    model = read(program(lambda a: ops.concatenation(ops.add(a, 1.0, fused_activation_function="RELU6"), a, axis=1), x))
    add, concatenation = model.subgraphs[0].operators
    assert add.builtinOptionsType == schema.BuiltinOptions.AddOptions
    assert add.builtinOptions.fusedActivationFunction == schema.ActivationFunctionType.RELU6
    assert concatenation.builtinOptions.axis == 1


def test_options_that_repeat_operands_are_written() -> None:
    def main(x: Any) -> Any:
        first, second = ops.unpack(x, axis=0)
        return ops.pack(
            first, second, ops.cast(ops.cast(first, out_data_type=DType.i32), out_data_type=DType.f32), axis=0
        )

    unpack, down, up, pack = read(program(main, f32(2, 3))).subgraphs[0].operators
    types = schema.TensorType
    assert unpack.builtinOptions.num == 2
    assert (down.builtinOptions.inDataType, down.builtinOptions.outDataType) == (types.FLOAT32, types.INT32)
    assert (up.builtinOptions.inDataType, up.builtinOptions.outDataType) == (types.INT32, types.FLOAT32)
    assert pack.builtinOptions.valuesCount == 3


def test_open_dimensions_are_1_and_minus_1() -> None:
    tensors = read(dense()).subgraphs[0].tensors
    assert (tensors[0].shape.tolist(), tensors[0].shapeSignature.tolist()) == ([1, 8], [-1, 8])
    constant = next(t for t in tensors if t.buffer)
    assert constant.shape.tolist() == [5, 8]
    assert constant.shapeSignature is None
    assert all(t.hasRank for t in tensors)


@pytest.mark.parametrize("make", programs.ALL)
def test_data_is_aligned_and_files_are_deterministic(make: Callable[[], Program]) -> None:
    data = to_bytes(make())
    assert data == to_bytes(make())
    assert len(data) % 16 == 0
    start = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    buffers = [b.data for b in schema.ModelT.InitFromPackedBuf(data, 0).buffers if b.data is not None]
    assert buffers
    assert [(b.__array_interface__["data"][0] - start) % 16 for b in buffers] == [0] * len(buffers)


def test_another_process_writes_the_same_bytes() -> None:
    script = "import sys; from tests.tflite.programs import *; sys.stdout.write(to_bytes(lstm()).hex())"
    script = f"from jfuse.tflite.write.file import to_bytes; {script}"
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {to_bytes(programs.lstm()).hex()}


def test_shared_and_equal_constants_are_stored_once() -> None:
    def main(x: Any) -> Any:
        y = ops.add(ops.fully_connected(x, WEIGHTS, BIAS), ops.fully_connected(x, WEIGHTS.copy(), BIAS))
        return y, ops.if_([ops.less(ops.sum_(y, [0, 1]), 0.0), x], [branch("then"), branch("else")])[0]

    def branch(name: str) -> Any:
        return trace_graph(lambda x: ops.fully_connected(x, WEIGHTS), [f32(2, 8)], name)

    model = read(program(main, f32(2, 8)))
    sizes = Counter(0 if b.data is None else b.data.size for b in model.buffers)
    assert sizes[WEIGHTS.nbytes] == 1
    assert sizes[BIAS.nbytes] == 1
    weights = [[t.buffer for t in g.tensors if t.buffer and t.shape.tolist() == [5, 8]] for g in model.subgraphs]
    assert [len(w) for w in weights] == [1, 1, 1]
    assert len({w[0] for w in weights}) == 1


def test_equal_vectors_of_numbers_stand_in_the_file_once() -> None:
    """Zero points of weights and biases, eight bytes for each channel of each layer, are the same zeros."""
    channels, layers = 64, 5

    def main(x: Any) -> Any:
        for seed in range(layers):
            x = ops.fully_connected(x, drawn(channels, channels, seed=seed), drawn(channels, seed=seed))
        return x

    calls = [{"x0": drawn(1, channels, seed=100)}]
    integers = calibrated(program_of(main, f32(1, channels)), Recipe((QuantizeRule("integer"),)), calls)
    data = integers.to_bytes()
    tensors = schema.ModelT.InitFromPackedBuf(data, 0).subgraphs[0].tensors
    zeros = [q.zeroPoint for t in tensors if (q := t.quantization) is not None and np.size(q.scale) == channels]
    assert len(zeros) == 2 * layers
    assert all(np.array_equal(found, np.zeros(channels)) for found in zeros)
    assert data.count(bytes(8 * channels)) == 1
    assert LiteRt(data).run("call", calls[0])["y0"].tolist() == integers.run(calls[0])["y0"].tolist()


def test_signatures_of_one_graph_share_a_subgraph() -> None:
    first = graph_of(lambda x: ops.add(x, 1.0), f32(BATCH))
    second = graph_of(lambda x: ops.mul(x, 3.0), f32(2), name="second")
    both = Program((signature(first, "a"), signature(second, "b", "p_"), signature(first, "c", "q_")))
    model = read(both)
    assert [s.subgraphIndex for s in model.signatureDefs] == [0, 1, 0]
    assert len(model.subgraphs) == 2
    lite, x = LiteRt(to_bytes(both)), np.array([1, 2], np.float32)
    assert lite.run("a", {"x0": x})["y0"].tolist() == [2, 3]
    assert lite.run("b", {"p_x0": x})["p_y0"].tolist() == [3, 6]
    assert lite.run("c", {"q_x0": x})["q_y0"].tolist() == [2, 3]


def test_entry_subgraphs_come_before_bodies_and_shared_bodies_are_written_once() -> None:
    body = trace_graph(lambda x: ops.add(x, 1.0), [f32(2)], "body")

    def main(flag: Any, x: Any) -> Any:
        (y,) = ops.if_([flag, x], [body, body])
        return ops.if_([flag, y], [body, body])[0]

    types = (TensorType((), DType.bool), f32(2))
    both = Program((signature(graph_of(main, *types), "a"), signature(graph_of(lambda x: ops.neg(x), f32(2)), "b")))
    model = read(both)
    assert [g.name for g in model.subgraphs] == [b"main", b"main", b"body"]
    options = [operator.builtinOptions for operator in model.subgraphs[0].operators]
    assert [(o.thenSubgraphIndex, o.elseSubgraphIndex) for o in options] == [(2, 2), (2, 2)]
    inputs = {"x0": np.array(True), "x1": np.zeros(2, np.float32)}
    assert LiteRt(to_bytes(both)).run("a", inputs)["y0"].tolist() == [2, 2]


def test_tensors_are_named_after_nodes_and_signatures() -> None:
    def main(x: Any) -> Any:
        with at_source(Source("act/Softplus", "Softplus", ("model", "block"))):
            y = ops.log(ops.add(ops.exp(x), 1.0))
        with at_source(Source("cut", "Split")):
            return ops.split(0, y, num_splits=2)

    names = [t.name.decode() for t in read(program(main, f32(2, 3))).subgraphs[0].tensors]
    assert names == [
        "x0",
        "model/block/act/Softplus",
        "model/block/act/Softplus/y",
        "model/block/act/Softplus;1",
        "model/block/act/Softplus;2",
        "cut/axis",
        "cut",
        "cut:1",
    ]


def test_names_are_unique_whatever_the_nodes_are_called() -> None:
    def main(x: Any) -> Any:
        for node in ("a", "a;1", "a", "ä", "x0", "a;1"):
            with at_source(Source(node)):
                x = ops.neg(x)
        return x

    names = [t.name.decode() for t in read(program(main, f32(2))).subgraphs[0].tensors]
    assert len(set(names)) == 7
    assert "ä" in names


def test_omitted_operands() -> None:
    def main(x: Any) -> Any:
        return ops.fully_connected(x, WEIGHTS)

    model = read(program(main, f32(2, 8)))
    assert model.subgraphs[0].operators[0].inputs.tolist() == [0, 1, -1]
    assert model.operatorCodes[0].version == 1
    (lstm,) = (o for o in read(programs.lstm()).subgraphs[0].operators if len(o.inputs) > 9)
    assert len(lstm.inputs) == 24
    assert lstm.inputs[20:].tolist() == [-1] * 4


def test_a_state_lives_in_the_operand_s_tensor() -> None:
    subgraph = read(programs.lstm()).subgraphs[0]
    at = next(i for i, o in enumerate(subgraph.operators) if len(o.inputs) > 9)
    lstm = subgraph.operators[at]
    h, c = lstm.inputs[18:20]
    assert len(lstm.outputs) == 1
    assert [i for i, t in enumerate(subgraph.tensors) if t.isVariable] == [h, c]
    assert [subgraph.tensors[i].buffer for i in (h, c)] == [0, 0]
    assert {h, c} <= {i for o in subgraph.operators[:at] for i in o.outputs}  # each is what an operator writes
    assert c in subgraph.operators[at + 2].inputs  # and read after the update from the same tensor


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        (lambda h, zero: (np.zeros((1, 2), np.float32), zero(2)), "a constant"),
        (lambda h, zero: (h, zero(2)), "an input of main"),
        (lambda h, zero: (shared := zero(2), shared), "a tensor that is read in 2 places"),
    ],
)
def test_a_state_that_no_equation_owns_is_refused(states: Callable[..., Any], reason: str) -> None:
    w, u, b = (np.ones(s, np.float32) for s in ((2, 3), (2, 2), (2,)))

    def main(x: Any, h: Any) -> Any:
        given = states(h, lambda n: ops.tile(ops.zeros_like(ops.reshape(h, [1, 2])), [1, 1]))
        return ops.unidirectional_sequence_lstm(
            x, w, w, w, w, u, u, u, u, None, None, None, b, b, b, b, None, None, *given
        )[0]

    with pytest.raises(LowerError, match=rf"output_state.* in place(.|\n)*{reason}(.|\n)*run the state pass"):
        to_bytes(program(main, f32(1, 5, 3), f32(1, 2)))


def test_ops_without_a_spelling_are_refused_together() -> None:
    inner = trace_graph(lambda x: ops.neg(x), [f32(2)], "body")

    def main(x: Any) -> Any:
        with at_source(Source("cell", "PartitionedCall")):
            (y,) = ops.composite([x], [inner], name="acme.cell")
        (y,) = ops.composite([y], [inner], name="acme.cell")
        return ops.scan([y], [trace_graph(lambda c: c, [f32(2)])], consts=0, carries=1, length=3, reverse=False)[0]

    graph = trace_graph(main, [f32(2)])
    with pytest.raises(LowerError) as caught:
        Model(Program((signature(graph),))).to_bytes()
    text = str(caught.value)
    assert "2 ops have no TFLite spelling" in text
    assert "composite (2x, first at cell (PartitionedCall))" in text
    assert "scan (1x, first at a node without a name)" in text


@pytest.mark.parametrize("make", [lambda x: x, lambda x: np.float32(1), lambda x: (y := ops.neg(x), y)])
def test_results_must_have_been_prepared(make: Callable[..., Any]) -> None:
    with pytest.raises(JfuseError, match=r"jfuse\.lower"):
        to_bytes(Program((signature(trace_graph(make, [f32(2)])),)))


def test_bad_names_are_refused() -> None:
    one = signature(graph_of(lambda x, y: ops.add(x, y), f32(2), f32(2)))
    with pytest.raises(LowerError, match="one name for each"):
        to_bytes(Program((replace(one, input_names=("x", "x")),)))
    with pytest.raises(LowerError, match="two signatures have one key"):
        to_bytes(Program((one, one)))


def test_an_unknown_option_value_is_refused() -> None:
    graph = graph_of(lambda x: ops.add(x, 1.0), f32(2))
    (eqn,) = graph.eqns
    wrong = replace(graph, eqns=(replace(eqn, params={"fused_activation_function": "SWISH"}),))
    with pytest.raises(JfuseError, match="'SWISH' is no fusedActivationFunction"):
        to_bytes(Program((signature(wrong),)))
    alien = replace(graph, eqns=(replace(eqn, params={"alpha": 1.0}),))
    with pytest.raises(LowerError, match="ADD has no option alpha"):
        to_bytes(Program((signature(alien),)))


def test_a_variable_that_nothing_binds_is_refused() -> None:
    graph = graph_of(lambda x: ops.neg(x), f32(2))
    loose = replace(graph, eqns=(replace(graph.eqns[0], inputs=(Var(f32(2)),)),))
    with pytest.raises(JfuseError, match="read before it is bound"):
        to_bytes(Program((signature(loose),)))


def test_data_behind_the_flatbuffer() -> None:
    source = dense()
    inside, outside = to_bytes(source), to_bytes(source, most_inside=100)
    assert [file_parts(source).size, file_parts(source, most_inside=100).size] == [len(inside), len(outside)]
    model = schema.ModelT.InitFromPackedBuf(outside, 0)
    weights = next(t for t in model.subgraphs[0].tensors if t.name == b"model/dense/MatMul/weights")
    buffer = model.buffers[weights.buffer]
    assert buffer.data is None
    assert buffer.offset % 16 == 0
    assert outside[buffer.offset : buffer.offset + buffer.size] == WEIGHTS.tobytes()
    assert len(outside) >= buffer.offset + buffer.size + 16
    contents = {m.name: outside[(b := model.buffers[m.buffer]).offset :][: b.size] for m in model.metadata}
    assert contents == {
        b"min_runtime_version": b"2.16.0".ljust(16, b"\0"),
        b"buffer_location": b"outside flatbuffers",
    }
    x = {"x0": np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)}
    wanted, found = (LiteRt(data).run(KEY, x) for data in (inside, outside))
    assert all(np.array_equal(wanted[name], found[name]) for name in wanted)
    assert to_bytes(load_tflite(outside)) == inside
    assert str(load_tflite(outside)) == str(load_tflite(inside))


def test_data_of_more_than_two_gigabytes_lies_behind_the_flatbuffer() -> None:
    large = np.broadcast_to(np.float32(1), (2**30,))  # 4 GiB, of which four bytes exist

    class Unread(Const):
        digest = "0"

    graph = graph_of(lambda x: ops.add(x, 1.0), f32(2**30))
    graph = replace(graph, eqns=(replace(graph.eqns[0], inputs=(graph.inputs[0], Unread(large))),))
    first = next(iter(file_parts(Program((signature(graph),)))))
    model = schema.ModelT.InitFromPackedBuf(bytes(first), 0)
    assert [b.size for b in model.buffers if b.size] == [2**32, 16, 19]  # the weights, and two entries of metadata
    assert model.buffers[2].offset == model.buffers[1].offset + 2**32


def test_a_reshape_to_a_scalar_leaves_shapes_static() -> None:
    model = read(program(lambda x: ops.neg(ops.reshape(x, [])), f32(1, 1)))
    reshape = model.subgraphs[0].operators[0]
    assert reshape.inputs.tolist() == [0]
    assert reshape.builtinOptions.newShape.tolist() == []
    x = np.array([[3]], np.float32)
    result = LiteRt(to_bytes(program(lambda x: ops.neg(ops.reshape(x, [])), f32(1, 1)))).run(KEY, {"x0": x})["y0"]
    assert (result.shape, float(result)) == ((), -3.0)


def test_save_writes_the_whole_file_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "model.tflite"
    write_atomic(target, to_bytes(dense()))
    assert target.read_bytes() == to_bytes(dense())

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(JfuseError, match=r"cannot be written at .*model\.tflite\n.*No space left"):
        write_atomic(target, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["model.tflite"]
    assert target.read_bytes() == to_bytes(dense())


def test_save_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(JfuseError, match="no such folder"):
        write_atomic(tmp_path / "missing" / "model.tflite", to_bytes(dense()))
    assert list(tmp_path.iterdir()) == []


def test_i32_operands_of_every_kind() -> None:
    graph = graph_of(lambda x: ops.gather(x, np.array([1, 0], np.int32), axis=0), i32(2, 2))
    data = to_bytes(Program((signature(graph),)))
    found = LiteRt(data).run(KEY, {"x0": np.array([[1, 2], [3, 4]], np.int32)})["y0"]
    assert found.tolist() == [[3, 4], [1, 2]]
