"""State tensors of files by other programs: of operators that jfuse has no op for, read by several, of open size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import jfuse
from jfuse.base.errors import BadFlatbuffer, JfuseError, LowerError
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Const, FileFacts, Program, Signature, State
from jfuse.ir.parser import parse_program
from jfuse.ir.trace import active_trace, trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.opaque_ops.tf_op import CustomOp
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from tests.tflite import programs
from tests.tflite.programs import f32
from tests.tflite.read.round_trip import round_trip
from tests.tflite.read.test_whole import changed, packed, read

UNITS, WIDTH = 4, 3


def tensor(name: str, shape: Sequence[int], buffer: int = 0, *, is_variable: bool = False) -> Any:
    table = schema.TensorT()
    table.name, table.shape, table.hasRank = name, np.array(shape, np.int32), True
    table.buffer, table.isVariable = buffer, is_variable
    return table


def basic_lstm(*, states: bool = True, kept_by: int = 1, marks: Sequence[bool] | None = None) -> bytes:
    """The LSTM of five operands, which old converters wrote: it copies its second and fifth operand from its results.

    kept_by: how many operators one after the other do so with the same tensors. marks: which operands they say that
    they write.
    """
    rng = np.random.default_rng(8)
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((4 * UNITS, WIDTH + UNITS), (4 * UNITS,))]
    buffers = [schema.BufferT() for _ in range(3)]
    for buffer, array in zip(buffers[1:], arrays, strict=True):
        buffer.data = array.view(np.uint8).ravel()
    graph = schema.SubGraphT()
    graph.tensors = [
        tensor("x", (1, WIDTH)),
        tensor("h", (1, UNITS), is_variable=states),
        tensor("weights", arrays[0].shape, 1),
        tensor("bias", arrays[1].shape, 2),
        tensor("c", (1, UNITS), is_variable=states),
    ]
    graph.operators = []
    for i in range(kept_by):
        operator = schema.OperatorT()
        operator.inputs, operator.outputs = np.arange(5, dtype=np.int32), np.arange(4, dtype=np.int32) + 5 + 4 * i
        operator.builtinOptionsType = schema.BuiltinOptions.LSTMOptions
        operator.builtinOptions = schema.LSTMOptionsT(kernelType=schema.LSTMKernelType.BASIC)
        operator.builtinOptions.fusedActivationFunction = schema.ActivationFunctionType.TANH
        operator.mutatingVariableInputs = None if marks is None else np.array(marks)
        graph.operators.append(operator)
        sizes = {"y": UNITS, "state": UNITS, "joined": WIDTH + UNITS, "gates": 4 * UNITS}
        graph.tensors += [tensor(f"{name}{i}", (1, size)) for name, size in sizes.items()]
    graph.inputs = np.array([0] if states else [0, 1, 4], np.int32)
    graph.outputs = np.arange(5, 7 + 4 * (kept_by - 1), 4, dtype=np.int32)
    model = schema.ModelT()
    model.version, model.description, model.subgraphs, model.buffers = 3, "an old converter", [graph], buffers
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.LSTM
    code.version = 2
    model.operatorCodes = [code]
    return packed(model)


def interpreter_of(data: bytes, shape: Sequence[int]) -> Interpreter:
    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    interpreter.resize_tensor_input(0, shape)
    interpreter.allocate_tensors()
    return interpreter


def streams_alike(data: bytes, *shapes: Sequence[int], tolerance: float = 0.0) -> None:
    """The same results as LiteRT's, call after call, three for each shape."""
    interpreter, stream = interpreter_of(data, shapes[0]), jfuse.Model(load_tflite(data)).stream()
    rng = np.random.default_rng(9)
    for call, shape in enumerate(shape for shape in shapes for _ in range(3)):
        (given,) = interpreter.get_input_details()
        if call and tuple(given["shape"]) != tuple(shape):
            interpreter.resize_tensor_input(given["index"], shape)
            interpreter.allocate_tensors()
        x = rng.normal(size=shape).astype(np.float32)
        interpreter.set_tensor(given["index"], x)
        interpreter.invoke()
        wanted = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
        found = stream(x)
        found = list(found.values()) if isinstance(found, dict) else [found]
        for f, w in zip(found, wanted, strict=True):
            np.testing.assert_allclose(f, w, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kept_by", [1, 2])
@pytest.mark.parametrize("marks", [None, (False, True, False, False, True)])
def test_an_operator_without_an_op_keeps_its_states(kept_by: int, marks: Sequence[bool] | None) -> None:
    data = basic_lstm(kept_by=kept_by, marks=marks)
    program = round_trip(data)
    (signature,) = program.signatures
    assert [s.name for s in signature.states] == ["h", "c"]
    eqns = signature.graph.eqns
    assert [(e.op.name, e.params["updates"], len(e.outputs)) for e in eqns] == [("opaque.lstm", (1, 4), 6)] * kept_by
    assert "opaque.lstm@2[" in str(program)
    streams_alike(data, (1, WIDTH))
    written = read(to_bytes(program))
    assert [t.name for t in written.subgraphs[0].tensors if t.isVariable] == [b"h", b"c"]
    assert len(written.subgraphs[0].operators) == kept_by
    for operator in written.subgraphs[0].operators:
        assert list(operator.mutatingVariableInputs) == [False, True, False, False, True]


def test_states_go_in_and_out_of_a_function() -> None:
    """As values, whatever was called before; LiteRT computes the operator through a host callback."""
    data = basic_lstm()
    model = jfuse.Model(load_tflite(data))
    assert "opaque.lstm" in str(model.runner())
    function = model.jax()
    assert function.state_names == ("h", "c")
    x = np.random.default_rng(1).normal(size=(2, 1, WIDTH)).astype(np.float32)
    y, *states = function(x[0], *model.initial_states())
    second, *_ = function(x[1], *states)
    again, *_ = function(x[1], *states)
    fresh, *_ = function(x[1], *model.initial_states())
    interpreter = interpreter_of(data, (1, WIDTH))
    for given, found in zip(x, (y, second), strict=True):
        interpreter.set_tensor(0, given)
        interpreter.invoke()
        np.testing.assert_array_equal(found, interpreter.get_tensor(5))
    np.testing.assert_array_equal(again, second)
    assert not np.array_equal(fresh, second)


def test_operands_that_it_does_not_mark_stay() -> None:
    eqn = load_tflite(basic_lstm(marks=(False, False, False, False, True))).signatures[0].graph.eqns[0]
    assert (eqn.params["updates"], len(eqn.outputs)) == ((4,), 5)
    data = basic_lstm(marks=(False,) * 5)
    program = load_tflite(data)
    graph = program.signatures[0].graph
    assert graph.eqns[0].params["updates"] == ()
    assert graph.outputs[1:] == graph.inputs[1:]
    assert [t.name for t in read(to_bytes(program)).subgraphs[0].tensors if t.isVariable] == [b"h", b"c"]


def test_marks_for_another_number_of_operands() -> None:
    with pytest.raises(BadFlatbuffer, match=r"not say of each operand whether it writes it at .*operator 0 \(LSTM\)"):
        load_tflite(basic_lstm(marks=(True, False)))


def test_such_a_program_is_not_lowered() -> None:
    with pytest.raises(LowerError, match="has operators without an op of jfuse"):
        jfuse.lower(jfuse.Model(load_tflite(basic_lstm())))


def custom() -> bytes:
    """A custom operator with an omitted operand and a state, between operators of TFLite."""

    def main(x: Any) -> Any:
        op = CustomOp("Odd/x:y", (f32(1, 2),))
        (y,) = active_trace().append(op, [ops.neg(x), None], op.types, op.defaults)
        return ops.add(x, y)

    def change(model: Any) -> None:
        subgraph = model.subgraphs[0]
        subgraph.tensors.append(tensor("kept", (2, 5), is_variable=True))
        operator = subgraph.operators[1]
        operator.inputs = np.array([*operator.inputs, len(subgraph.tensors) - 1], np.int32)

    return changed(programs.program(main, f32(1, 2)), change)


def test_a_custom_operator_with_states() -> None:
    data = custom()
    program = load_tflite(data)
    check_graph(program.signatures[0].graph)
    eqn = program.signatures[0].graph.eqns[1]
    assert (eqn.params["updates"], str(eqn.outputs[-1].type)) == ((2,), "f32[2,5]")
    assert str(parse_program(str(program))) == str(program) == str(load_tflite(to_bytes(program)))
    assert to_bytes(load_tflite(to_bytes(program))) == to_bytes(program)
    written = read(to_bytes(program)).subgraphs[0]
    operator = written.operators[1]
    assert list(operator.mutatingVariableInputs) == [False, False, True]
    kept = written.tensors[operator.inputs[2]]
    assert (kept.name, kept.isVariable, kept.buffer, kept.shape.tolist()) == (b"kept", True, 0, [2, 5])
    assert len(written.operators) == len(read(data).subgraphs[0].operators)
    with pytest.raises(LowerError, match=r"LiteRT cannot run custom\.Odd"):
        jfuse.Model(program)(np.zeros((1, 2), np.float32))
    with pytest.raises(LowerError, match="has operators without an op of jfuse"):
        jfuse.lower(jfuse.Model(program))


# States of recurrent ops, where another program's file has them.


def lstm(*, steps: Any = 6, read_first: bool = False) -> Program:
    """An LSTM whose states stay from call to call; with the state before the call as a result, where asked for."""
    eqn = next(e for e in programs.lstm().signatures[0].graph.eqns if e.op is ops.unidirectional_sequence_lstm)
    arrays = [None if a is None else a.array if isinstance(a, Const) else a for a in eqn.inputs]

    def main(x: Any, h: Any, c: Any) -> Any:
        before = (ops.add(h, 1.0),) if read_first else ()
        y, *states = ops.unidirectional_sequence_lstm(x, *arrays[1:18], h, c)
        return (*before, y, *states)

    graph = trace_graph(main, [f32(1, steps, WIDTH), f32(1, UNITS), f32(1, UNITS)])
    states = tuple(State(name, Const(np.zeros((1, UNITS), np.float32)), home="tensor") for name in ("h", "c"))
    outputs = tuple(f"y{i}" for i in range(len(graph.outputs) - 2))
    return Program((Signature("serving_default", graph, ("x",), outputs, states),), facts=FileFacts("others"))


def test_states_stay_in_their_tensors_where_an_input_has_an_open_size() -> None:
    data = to_bytes(lstm(steps=programs.BATCH))
    program = round_trip(data)
    written = read(to_bytes(program)).subgraphs[0]
    assert len(written.operators) == 1
    assert sum(t.isVariable for t in written.tensors) == 2
    assert written.tensors[0].shapeSignature.tolist() == [1, -1, WIDTH]
    shapes = [(1, steps, WIDTH) for steps in (1, 5, 2, 5)]  # each change clears the states
    streams_alike(data, *shapes, tolerance=1e-6)  # 7 products in f32
    streams_alike(to_bytes(program), *shapes, tolerance=1e-6)


def test_a_state_that_others_read_before_it_is_written() -> None:
    data = to_bytes(lstm(read_first=True))
    program = round_trip(data)
    assert len(read(to_bytes(program)).subgraphs[0].operators) == 2
    streams_alike(data, (1, 6, WIDTH), tolerance=1e-6)


def half(y: Any) -> Any:
    return ops.mul(y, 0.5)


def rounded(y: Any) -> Any:
    """In f16, by the operator that is also found where a state has its first value."""
    return ops.dequantize(ops.cast(y, out_data_type=DType.f16))


def counter(*, early: bool = False, twice: bool = False, step: Callable[[Any], Any] = half) -> bytes:
    """y = x + v, then v = step(y), as operators of which one has the state tensor for its result.

    early: v is written before it is read. twice: two operators write it.
    """

    def main(x: Any, v: Any) -> Any:
        before = [half(x)] * early
        y = ops.add(x, v)
        return (y, *(before or [step(y), *[ops.mul(y, 0.25)] * twice]))

    def change(model: Any) -> None:
        subgraph = model.subgraphs[0]
        state, writers = int(subgraph.inputs[1]), subgraph.outputs[1:]
        subgraph.tensors[state].isVariable = True
        for operator in subgraph.operators:
            operator.outputs = np.where(np.isin(operator.outputs, writers), state, operator.outputs).astype(np.int32)
        subgraph.inputs, subgraph.outputs, model.signatureDefs = subgraph.inputs[:1], subgraph.outputs[:1], None

    return changed(programs.program(main, f32(1, 3), f32(1, 3)), change)


@pytest.mark.parametrize(("step", "op"), [(half, "mul"), (rounded, "dequantize")])
def test_a_state_that_an_ordinary_operator_writes(step: Callable[[Any], Any], op: str) -> None:
    data = counter(step=step)
    program = round_trip(data)
    assert 'state tensor "x1" = f32[1,3](0.0 0.0 0.0)' in str(program)
    written = read(to_bytes(program)).subgraphs[0]
    assert [t.name for t in written.tensors if t.isVariable] == [b"x1"]
    assert len(written.operators) == len(read(data).subgraphs[0].operators)
    streams_alike(data, (1, 3))
    lowered = jfuse.lower(jfuse.Model(program))
    assert [str(k) for k in lowered.report.kept] == [f"x1: f32[1,3] in the state tensor of {op} at x1"]
    streams_alike(lowered.to_bytes(), (1, 3))


def test_a_result_that_is_an_operand_of_its_operator() -> None:
    def change(model: Any) -> None:
        operator = model.subgraphs[0].operators[0]
        operator.outputs = operator.inputs[1:]
        model.subgraphs[0].tensors[operator.inputs[1]].isVariable = True
        model.subgraphs[0].inputs, model.signatureDefs = model.subgraphs[0].inputs[:1], None

    data = changed(programs.program(lambda x, v: ops.add(x, v), f32(1, 3), f32(1, 3)), change)
    with pytest.raises(BadFlatbuffer, match=r"an operator has an operand for its result at .*operator 0 \(ADD\)"):
        load_tflite(data)
    with pytest.raises(RuntimeError, match="is both input 1 and output 0"):
        Interpreter(model_content=data).allocate_tensors()


def test_what_is_written_first_is_no_state() -> None:
    data = counter(early=True)
    assert round_trip(data).states() == ()
    streams_alike(data, (1, 3))


def test_a_state_that_two_operators_write() -> None:
    with pytest.raises(BadFlatbuffer, match=r"a tensor is written twice at .*tensor 1 'x1'"):
        load_tflite(counter(twice=True))


def kept_lstm(batch: int) -> bytes:
    """An LSTM whose states the file calls open in the batch, and allocates for one."""

    def change(model: Any) -> None:
        subgraph = model.subgraphs[0]
        states = [i for i, t in enumerate(subgraph.tensors) if t.isVariable]
        subgraph.operators = [o for o in subgraph.operators if o.outputs[0] not in states]
        for i in states:
            assert subgraph.tensors[i].shapeSignature.tolist() == [-1, UNITS]
            subgraph.tensors[i].shape = np.array([batch, UNITS], np.int32)

    return changed(programs.lstm(), change)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_state_of_open_size_has_the_size_that_the_file_allocates(batch: int) -> None:
    data = kept_lstm(batch)
    program = load_tflite(data)
    assert [str(s.initial.type) for s in program.states()] == [f"f32[{batch},{UNITS}]"] * 2
    assert str(program.signatures[0].graph.inputs[0].type) == f"f32[{batch},6,{WIDTH}]"
    for graph in program.graphs():
        check_graph(graph)
    streams_alike(data, (batch, 6, WIDTH), tolerance=1e-6)
    streams_alike(to_bytes(program), (batch, 6, WIDTH), tolerance=1e-6)
    assert str(load_tflite(to_bytes(program))) == str(program)
    other = np.zeros((2, 6, WIDTH), np.float32)
    interpreter = Interpreter(model_content=data)
    interpreter.resize_tensor_input(0, other.shape)
    with pytest.raises(RuntimeError, match="output_state"):  # so no other size is lost
        interpreter.allocate_tensors()
    with pytest.raises(JfuseError):
        jfuse.Model(program)(other)


def test_a_state_of_a_size_that_the_operands_do_not_have() -> None:
    with pytest.raises(BadFlatbuffer, match=r"output state: \[0, 4\] where \[B, 4\] belongs at .*operator 2"):
        load_tflite(kept_lstm(0))


def marked(source: bytes | Program, *names: bytes) -> bytes:
    """The file with the tensors of these names marked as variables, and given by the caller."""

    def change(model: Any) -> None:
        subgraph = model.subgraphs[0]
        places = [i for i, t in enumerate(subgraph.tensors) if t.name in names]
        for i in places:
            subgraph.tensors[i].isVariable = True
        given = dict.fromkeys([*subgraph.inputs.tolist(), *places])
        subgraph.inputs, model.signatureDefs = np.array(list(given), np.int32), None

    model = schema.ModelT.InitFromPackedBuf(source if isinstance(source, bytes) else to_bytes(source), 0)
    change(model)
    return packed(model)


@pytest.mark.parametrize(
    "data",
    [
        marked(programs.program(lambda x: ops.add(x, np.float32(1)), f32(1, 3)), b"x0"),
        marked(programs.program(lambda x, v: ops.sub(ops.tanh(x), v), f32(1, 3), f32(1, 3)), b"x1"),
        marked(programs.program(lambda x, v: ops.sub(ops.tanh(x), v), f32(2, 3), f32(2, 3)), b"x0", b"x1"),
        marked(basic_lstm(), b"h", b"c"),
        marked(basic_lstm(), b"c"),
    ],
    ids=["the only input", "the second of two", "both", "all states of an LSTM", "one state of an LSTM"],
)
def test_an_input_that_is_marked_as_a_variable_is_what_the_caller_gives(data: bytes) -> None:
    program = load_tflite(data)
    (signature,) = program.signatures
    rng = np.random.default_rng(3)
    interpreters = [interpreter_of(d, signature.graph.inputs[0].type.shape) for d in (data, to_bytes(program))]
    for interpreter in interpreters:
        assert len(interpreter.get_input_details()) == len(signature.input_names)
    stream = None if "lstm" in str(program) else jfuse.Model(program).stream()  # no kernel of jfuse runs the old LSTM
    for _ in range(3):
        values = [rng.normal(size=v.type.shape).astype(np.float32) for v in signature.graph.inputs]
        values = values[: len(signature.input_names)]
        answers = []
        for interpreter in interpreters:
            for details, value in zip(interpreter.get_input_details(), values, strict=True):
                interpreter.set_tensor(details["index"], value)
            interpreter.invoke()
            answers.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
        for wanted, found in zip(*answers, strict=True):
            np.testing.assert_array_equal(found, wanted)
        if stream is not None:
            np.testing.assert_allclose(stream(*values), answers[0][0], rtol=1e-6)  # one tanh of f32
