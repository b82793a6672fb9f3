"""Reading .tflite files: what was exported comes back as the same text; whatever is wrong is told with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import BadFlatbuffer, ImportFailed, JfuseError, LowerError
from jfuse.base.files import write_atomic
from jfuse.ir.check import check_graph
from jfuse.ir.dims import SymbolNames, symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Program, Source
from jfuse.ir.parser import parse_program
from jfuse.ir.text import constants_of, format_graph, format_program
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import rename_dims
from jfuse.kernels import ops
from jfuse.lowering.ops.linalg.matmul import matrix_product
from jfuse.tflite import mapped_file
from jfuse.tflite.names import source_of
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes
from tests.op_cases import FAMILIES
from tests.op_cases.case import Case
from tests.op_cases.failures import Failures
from tests.op_cases.runners import graph_of as graph_of_row
from tests.op_cases.runners import opened
from tests.tflite import programs
from tests.tflite.programs import BATCH, WEIGHTS, dense, f32, graph_of, i32, program, signature

N = symbol("N")


def mixed() -> Program:
    """Several signatures over shared graphs, with nested bodies, open dimensions and a data-dependent size."""

    def loop(n: Any, x: Any) -> Any:
        types = [i32(), f32(BATCH, N)]
        then = trace_graph(lambda v: ops.neg(v), types[1:], "then")

        def body(i: Any, v: Any) -> Any:
            (v,) = ops.if_([ops.less(i, 2), v], [then, then])
            return ops.add(i, 1), v

        cond = trace_graph(lambda i, v: ops.less(i, 5), types, "cond")
        return ops.while_([n, x], [cond, trace_graph(body, types, "body")])

    def where(x: Any) -> Any:
        return ops.where(ops.greater(x, 0.0))

    names = SymbolNames()  # of one program, as importers hand them out
    types = [i32(), f32(names.fresh("B"), names.fresh("N"))]
    shared = prepare_outputs(trace_graph(loop, types, names=names))
    found = trace_graph(where, [f32(names.fresh("B"), 3)], "found", names)
    return Program((signature(shared, "a"), signature(found, "b"), signature(shared, "c", "other_")))


def scalars() -> Program:
    """Reshapes to scalars, constants without elements, handed-through inputs and strings."""

    def main(x: Any, text: Any) -> Any:
        empty = ops.concatenation(x, np.zeros((0, 1), np.float32), axis=0)
        return ops.reshape(x, []), empty, text, ops.equal(text, np.array([b"", b"\xff"], object)), np.float32(0.1)

    return program(main, f32(1, 1), TensorType((2,), DType.string))


def options() -> Program:
    """Options of every kind: floats, enums, dtypes, masks, tuples."""

    def main(x: Any) -> Any:
        y = ops.leaky_relu(ops.squeeze(x, squeeze_dims=(1,)), alpha=0.2)
        y = ops.add(y, 0.1, fused_activation_function="RELU_N1_TO_1")
        z = ops.strided_slice(y, [0, 0], [0, 2], [1, 1], begin_mask=1, end_mask=1)
        return ops.cast(z, out_data_type=DType.i64), ops.shape(x, out_type=DType.i64)

    return program(main, f32(BATCH, 1, 4))


ALL = (*programs.ALL, mixed, scalars, options)


@pytest.mark.parametrize("make", ALL)
def test_what_was_exported_comes_back(make: Callable[[], Program]) -> None:
    source = make()
    data = to_bytes(source)
    found = load_tflite(data)
    assert format_program(found) == format_program(source)
    assert to_bytes(found) == data
    for graph in found.graphs():
        check_graph(graph)


def halves(family: str) -> tuple[list[Case], list[Case]]:
    """The rows of a family: every other one of each op, from its first on, and those between."""
    of_op: dict[str, list[Case]] = {}
    for row in FAMILIES[family]:
        of_op.setdefault(row.op, []).append(row)
    first, second = ([row for rows in of_op.values() for row in rows[i::2]] for i in (0, 1))
    return first, second


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_come_back(family: str) -> None:
    """Rows of open batches, and those that have none."""
    check_rows_come_back((row, row.dynamic) for row in halves(family)[0])


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_other_rows_come_back(family: str) -> None:
    check_rows_come_back((row, row.dynamic) for row in halves(family)[1])
    check_rows_come_back((row, False) for row in FAMILIES[family] if row.dynamic)


def check_rows_come_back(rows: Iterable[tuple[Case, bool]]) -> None:
    failures = Failures()
    for row, dynamic in rows:
        with failures.of(f"{row.id}-dynamic" if dynamic else row.id):
            check_row_comes_back(row, dynamic)
    failures.check()


def check_row_comes_back(row: Case, dynamic: bool) -> None:
    graph = prepare_outputs(opened(graph_of_row(row, dynamic=dynamic)))
    data = to_bytes(Program((signature(graph),)))
    found = load_tflite(data)
    # Each open dimension of an input has its own symbol here, and rows give one to all.
    same_batch = rename_dims(found.signatures[0].graph, {"B1": BATCH, "B2": BATCH})
    assert format_graph(same_batch, sources=False) == format_graph(graph, sources=False)
    assert to_bytes(found) == data


def test_names_and_sources() -> None:
    graph = load_tflite(to_bytes(dense())).signatures[0].graph
    assert [v.name for v in graph.inputs] == ["x0"]
    assert [str(e.source) for e in graph.eqns] == ["model/dense/MatMul", *["model/dense/Relu"] * 2, "main/output_1"]
    assert [a.name for e in graph.eqns for a in e.inputs if isinstance(a, Const)][:2] == [
        "model/dense/MatMul/weights",
        "model/dense/MatMul/bias",
    ]


@pytest.mark.parametrize(
    ("name", "node"),
    [("a/b", "a/b"), ("a/b;2", "a/b"), ("a:1", "a"), ("a:1;2", "a"), (";add;1", ""), ("a;b", "a;b"), ("", "")],
)
def test_sources_in_names(name: str, node: str) -> None:
    assert source_of(name) == Source(node)


def test_repeated_nodes_come_back() -> None:
    def main(x: Any) -> Any:
        with at_source(Source("Softplus", stack=("model",))):
            y = ops.log(ops.add(ops.exp(x), 1.0))
        with at_source(Source("cut")):
            return ops.split(0, y, num_splits=2)

    found = load_tflite(to_bytes(program(main, f32(2, 3)))).signatures[0].graph
    assert [str(e.source) for e in found.eqns] == ["model/Softplus"] * 3 + ["cut"]


def test_open_dimensions_get_their_own_symbols() -> None:
    def main(x: Any, y: Any, z: Any) -> Any:
        return ops.neg(x), ops.add(y, z)

    found = load_tflite(to_bytes(program(main, f32(BATCH, N), f32(BATCH), f32(BATCH)))).signatures[0].graph
    assert [str(v.type) for v in found.inputs] == ["f32[B,N]", "f32[B1]", "f32[B1]"]
    assert [str(a.type) for a in found.outputs] == ["f32[B,N]", "f32[B1]"]


def test_constants_are_views_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_file, "COPIED", 0)
    data = to_bytes(dense())
    weights = _constants(load_tflite(data), WEIGHTS.shape)
    assert np.shares_memory(weights, np.frombuffer(data, np.uint8))
    assert np.array_equal(weights, WEIGHTS)
    path = tmp_path / "dense.tflite"
    write_atomic(path, to_bytes(dense()))
    mapped = _constants(load_tflite(path), WEIGHTS.shape)
    assert np.array_equal(mapped, WEIGHTS)
    assert not mapped.flags.writeable
    assert isinstance(_memory_of(mapped), np.memmap)
    assert load_tflite(str(path)).signatures[0].key == programs.KEY


def _constants(source: Program, shape: tuple[int, ...]) -> np.ndarray:
    atoms = (a for e in source.signatures[0].graph.eqns for a in e.inputs)
    return next(a.array for a in atoms if isinstance(a, Const) and a.array.shape == shape)


def _memory_of(array: Any) -> Any:
    """The first memory map that the array is a view of."""
    while not isinstance(array, np.memmap):
        array = array.obj if isinstance(array, memoryview) else array.base
    return array


def test_a_state_is_a_value_again() -> None:
    source = programs.lstm()
    graph = load_tflite(to_bytes(source)).signatures[0].graph
    (lstm,) = (e for e in graph.eqns if e.op is ops.unidirectional_sequence_lstm)
    assert len(lstm.outputs) == 3
    after = graph.eqns[graph.eqns.index(lstm) + 1 :]
    assert any(lstm.outputs[2] in e.inputs for e in after)
    assert not any(lstm.inputs[19] in e.inputs for e in after)
    x = np.random.default_rng(1).normal(size=(2, 6, 3)).astype(np.float32)
    for found, wanted in zip(evaluate(graph, [x]), evaluate(source.signatures[0].graph, [x]), strict=True):
        assert np.array_equal(found, wanted)


def test_sizes_that_the_file_tells_reach_what_reads_them() -> None:
    """A slice between bounds that are computed has a size that follows from the product alone."""

    def column(x: Any, i: Any) -> Any:
        begin, end = ops.pack(np.int32(0), i), ops.pack(np.int32(0), ops.add(i, 1))
        part = ops.strided_slice(x, begin, end, [1, 1], begin_mask=1, end_mask=1)
        return ops.add(matrix_product(part, np.ones((1, 4), np.float32), False, False), x)

    written = graph_of(column, f32(BATCH, 4), i32())
    recorded_again = trace_graph(lambda *args: evaluate(written, args), [v.type for v in written.inputs], written.name)
    assert str(recorded_again) == str(written)
    (read,) = load_tflite(to_bytes(Program((signature(written),)))).graphs()
    for graph in (written, read):
        assert [str(e.outputs[0].type) for e in graph.eqns if e.op is ops.strided_slice] == ["f32[B,1]"]


def test_folding_does_not_drop_operators() -> None:
    graph = graph_of(lambda x: ops.mul(ops.shape(x), 2), f32(BATCH, 3))
    static = rename_dims(graph, {"B": 4})  # SHAPE of a known shape: recording it anew would fold it
    data = to_bytes(Program((signature(static),)))
    found = load_tflite(data)
    assert [e.op.name for e in found.signatures[0].graph.eqns] == ["shape", "mul"]
    assert to_bytes(found) == data


# Broken files: tables are changed through the schema's own objects.


def changed(source: Program, change: Callable[[Any], object]) -> bytes:
    model = schema.ModelT.InitFromPackedBuf(to_bytes(source), 0)
    change(model)
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def operator(model: Any, index: int = 0) -> Any:
    return model.subgraphs[0].operators[index]


def tensor(model: Any, index: int) -> Any:
    return model.subgraphs[0].tensors[index]


def body_of_itself(model: Any) -> None:
    operator(model).builtinOptions.bodySubgraphIndex = 0
    operator(model).builtinOptions.condSubgraphIndex = 0


def other_options(model: Any) -> None:
    operator(model).builtinOptionsType = schema.BuiltinOptions.AddOptions
    operator(model).builtinOptions = schema.AddOptionsT()


def buffer_behind_the_file(model: Any) -> None:
    model.buffers[1].offset, model.buffers[1].size = 10**6, 160


def weights_too_short(model: Any) -> None:
    model.buffers[tensor(model, 1).buffer].data = np.zeros(4, np.uint8)


BROKEN: dict[str, tuple[Callable[[Any], object], str]] = {
    "version": (lambda m: setattr(m, "version", 2), "the schema's version differs(.|\n)*expected  3"),
    "no subgraphs": (lambda m: setattr(m, "subgraphs", []), "the file has no subgraph"),
    "operator code": (lambda m: setattr(operator(m), "opcodeIndex", 9), "no such operator code"),
    "unknown code": (lambda m: setattr(m.operatorCodes[0], "builtinCode", 999), "none of the schema's"),
    "operand": (
        lambda m: setattr(operator(m), "inputs", np.array([99], np.int32)),
        "no such tensor(.|\n)*found     99",
    ),
    "output": (
        lambda m: setattr(operator(m), "outputs", np.array([-1], np.int32)),
        "no such tensor(.|\n)*found     -1",
    ),
    "input": (lambda m: setattr(m.subgraphs[0], "inputs", np.array([50], np.int32)), "no such tensor at .*subgraph 0"),
    "inputs": (lambda m: setattr(m.subgraphs[0], "inputs", np.array([0, 0], np.int32)), "an input is listed twice"),
    "buffer": (lambda m: setattr(tensor(m, 1), "buffer", 77), "no such buffer at .*tensor 1"),
    "short buffer": (weights_too_short, "too short at .*tensor 1 'model/dense/MatMul/weights'(.|\n)*expected  160"),
    "type": (lambda m: setattr(tensor(m, 1), "type", 99), "an unknown type(.|\n)*found     99"),
    "another type": (lambda m: setattr(tensor(m, 3), "type", 2), "states another type(.|\n)*found     i32"),
    "another shape": (
        lambda m: setattr(tensor(m, 3), "shapeSignature", np.array([-1, 6], np.int32)),
        r"states another type(.|\n)*expected  f32\[B,5\]\n  found     f32\[\?,6\]",
    ),
    "shape": (lambda m: setattr(tensor(m, 0), "shape", np.array([-4, 8], np.int32)), "an impossible shape"),
    "signature rank": (lambda m: setattr(tensor(m, 0), "shape", np.array([1], np.int32)), "an impossible shape"),
    "no bytes": (lambda m: setattr(tensor(m, 1), "buffer", 0), "read before it is written at .*tensor 1"),
    "written twice": (
        lambda m: setattr(operator(m, 2), "outputs", operator(m).outputs),
        "written twice at .*tensor 3",
    ),
    "operand for its result": (
        lambda m: setattr(operator(m, 1), "outputs", operator(m).outputs),
        r"an operator has an operand for its result at .*operator 1 \(RELU\)",
    ),
    "operand count": (
        lambda m: setattr(operator(m), "inputs", np.array([0, 1, 2, 2], np.int32)),
        r"too many operands at .*operator 0 \(FULLY_CONNECTED\)",
    ),
    "operand types": (
        lambda m: setattr(operator(m), "inputs", np.array([0, 2, 1], np.int32)),
        r"fully_connected does not take these operands at .*operator 0 \(FULLY_CONNECTED\)",
    ),
    "missing operand": (
        lambda m: setattr(operator(m), "inputs", np.array([0], np.int32)),
        "an operator lacks an operand",
    ),
    "output count": (
        lambda m: setattr(operator(m), "outputs", np.array([3, 4], np.int32)),
        "another number of outputs(.|\n)*expected  1",
    ),
    "options": (
        other_options,
        "the options of another op",
    ),
    "option value": (
        lambda m: setattr(operator(m).builtinOptions, "fusedActivationFunction", 77),
        "FULLY_CONNECTED has an unknown fusedActivationFunction",
    ),
    "name": (lambda m: setattr(tensor(m, 0), "name", b"\xff"), "a name is not UTF-8"),
    "signature names": (
        lambda m: m.signatureDefs[0].inputs.pop(),
        "signature 'serving_default', inputs(.|\n)*expected  \\[0\\]",
    ),
    "repeated names": (
        lambda m: setattr(m.signatureDefs[0].outputs[1], "name", b"y0"),
        "two tensors of a signature have one name",
    ),
    "signature subgraph": (lambda m: setattr(m.signatureDefs[0], "subgraphIndex", 4), "no such subgraph"),
    "buffer behind the file": (
        buffer_behind_the_file,
        "beyond the end of the file",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_tables(name: str) -> None:
    change, message = BROKEN[name]
    with pytest.raises((BadFlatbuffer, LowerError), match=message) as caught:
        load_tflite(changed(dense(), change))
    assert "the bytes" in str(caught.value)


def test_a_subgraph_that_calls_itself() -> None:
    with pytest.raises(BadFlatbuffer, match=r"a subgraph calls itself at .*subgraph 0"):
        load_tflite(changed(programs.loop(), body_of_itself))


def test_a_body_with_other_operands() -> None:
    def change(model: Any) -> None:
        operator(model).builtinOptions.condSubgraphIndex = 2
        model.subgraphs[2].inputs = model.subgraphs[2].inputs[:2]

    with pytest.raises(BadFlatbuffer, match=r"a body takes another number of operands at .*subgraph 2"):
        load_tflite(changed(programs.loop(), change))


def test_a_loop_whose_body_gives_fewer_values_than_it_takes() -> None:
    def change(model: Any) -> None:
        body = model.subgraphs[operator(model).builtinOptions.bodySubgraphIndex]
        body.outputs = body.outputs[:-1]

    with pytest.raises(BadFlatbuffer, match="the body of a loop gives another number of values"):
        load_tflite(changed(programs.loop(), change))


def test_a_state_that_is_no_variable() -> None:
    def change(model: Any) -> None:
        for table in model.subgraphs[0].tensors:
            table.isVariable = False

    with pytest.raises(BadFlatbuffer, match="the state output_state is no variable tensor"):
        load_tflite(changed(programs.lstm(), change))


def test_what_jfuse_has_no_op_for_is_kept() -> None:
    def change(model: Any) -> None:
        model.operatorCodes[0].builtinCode = schema.BuiltinOperator.STABLEHLO_DOT_GENERAL
        operator(model).builtinOptionsType, operator(model).builtinOptions = 0, None
        operator(model).builtinOptions2Type = schema.BuiltinOptions2.StablehloDotGeneralOptions
        operator(model).builtinOptions2 = schema.StablehloDotGeneralOptionsT(
            lhsContractingDimensions=np.array([1]), rhsContractingDimensions=np.array([1])
        )
        model.operatorCodes[1].builtinCode = schema.BuiltinOperator.DELEGATE

    data = changed(dense(), change)
    found = load_tflite(data)
    graph = found.signatures[0].graph
    assert [e.op.name for e in graph.eqns][:2] == ["opaque.stablehlo_dot_general", "opaque.delegate"]
    assert graph.eqns[0].version == 1
    check_graph(graph)
    assert format_program(parse_program(str(found), consts=constants_of(found))) == str(found)
    written = schema.ModelT.InitFromPackedBuf(to_bytes(found), 0)
    assert operator(written).builtinOptions2Type == schema.BuiltinOptions2.StablehloDotGeneralOptions
    assert operator(written).builtinOptions2.rhsContractingDimensions.tolist() == [1]
    assert format_program(load_tflite(to_bytes(found))) == str(found)
    with pytest.raises(LowerError, match="STABLEHLO_DOT_GENERAL has no kernel in jfuse"):
        evaluate(graph, [np.zeros((1, 8), np.float32)])


def test_operators_with_options_that_jfuse_does_not_know_are_kept() -> None:
    def change(model: Any) -> None:
        operator(model).builtinOptions.quantSpec = np.array([7], np.int32)

    found = load_tflite(changed(dense(), change))
    assert found.signatures[0].graph.eqns[0].op.name == "opaque.fully_connected"
    written = schema.ModelT.InitFromPackedBuf(to_bytes(found), 0)
    assert operator(written).builtinOptions.quantSpec.tolist() == [7]


def test_missing_options_have_the_schema_s_defaults() -> None:
    def change(model: Any) -> None:
        operator(model).builtinOptions, operator(model).builtinOptionsType = None, 0

    assert format_program(load_tflite(changed(dense(), change))) == format_program(dense())


def test_files_without_signatures_have_one() -> None:
    found = load_tflite(changed(dense(), lambda m: setattr(m, "signatureDefs", None)))
    (only,) = found.signatures
    assert (only.key, only.input_names) == ("serving_default", ("x0",))
    assert only.output_names == ("model/dense/Relu", "main/output_1", "model/dense/Relu;1")


def test_signatures_in_another_order_name_the_same_tensors() -> None:
    found = load_tflite(changed(dense(), lambda m: m.signatureDefs[0].outputs.reverse()))
    assert found.signatures[0].output_names == ("y0", "y1", "y2")


def test_data_behind_the_flatbuffer_is_read() -> None:
    data = to_bytes(dense())
    place = [0]

    def change(model: Any) -> None:
        buffer = model.buffers[tensor(model, 1).buffer]
        buffer.data, buffer.offset, buffer.size = None, place[0] or 2, WEIGHTS.nbytes

    place[0] = len(changed(dense(), change))
    large = changed(dense(), change) + WEIGHTS.tobytes()
    assert to_bytes(load_tflite(large)) == data


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\x10\0\0\0TFL4" + bytes(99), b"PK\x03\x04 a zip file perhaps"])
def test_what_is_no_tflite_file(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(BadFlatbuffer, match=r"no \.tflite file"):
        load_tflite(data)
    path = tmp_path / "x.tflite"
    path.write_bytes(data)
    with pytest.raises(BadFlatbuffer, match=r"no \.tflite file at .*x\.tflite"):
        load_tflite(path)


def test_a_path_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "missing.tflite", "cannot be read"), (tmp_path, "is no regular file")):
        with pytest.raises(ImportFailed, match=f"{reason} at {path}"):
            load_tflite(path)


def damaged(data: bytes) -> Iterator[bytes]:
    """Cut files, and files with a few bytes changed, mostly among the tables."""
    rng = np.random.default_rng(11)
    for length in range(8, len(data), 97):
        yield data[:length]
    for _ in range(250):
        copy = bytearray(data)
        for place in rng.integers(0, len(data), 3):
            copy[place] = rng.integers(0, 256)
        yield bytes(copy)


@pytest.mark.parametrize("make", [dense, programs.loop])
def test_damaged_files_give_our_errors_only(make: Callable[[], Program]) -> None:
    refused = 0
    for data in damaged(to_bytes(make())):
        try:
            load_tflite(data)
        except JfuseError:
            refused += 1
    assert refused > 50
