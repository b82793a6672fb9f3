"""States in the file, as LiteRT keeps them: variables, and state tensors without a writer. Every call is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from jfuse.base.errors import BadFlatbuffer
from jfuse.ir.graph import Const, Program, Signature, State
from jfuse.ir.parser import parse_program
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.passes.context import Context
from jfuse.passes.states.placement import place_states
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from jfuse.verification.compare.read_back import reads_back

CALL_ONCE = schema.BuiltinOptions.CallOnceOptions
SWAP = parse_program("""
program {
  state "n" = f32[1](5.0)
  state "a" = f32[2](1.0 2.0)
  state "b" = f32[2](3.0 4.0)
  state "i" = i32[1](7)
  state "on" = bool[1](True)
  signature "step"("x") -> ("y", "z") keeps ("n", "a", "b", "i", "on") = graph 0
  signature "set"("x") -> ("y") keeps ("n", "a") = graph 1
  signature "peek"("x") -> ("n", "a", "b") keeps ("a", "n", "b") = graph 2
  graph step(x: f32[2], n: f32[1], a: f32[2], b: f32[2], i: i32[1], on: bool[1]) {
    c: f32[2] = add x n
    d: f32[2] = add c a
    e: f32[2] = mul a b
    f: f32[2] = add e x
    g: f32[1] = add n 1.0
    h: i32[1] = add i 2
    j: bool[1] = logical_not on
    return d, f, g, b, a, h, j
  }
  graph set(x: f32[2], n: f32[1], a: f32[2]) {
    d: f32[2] = neg x
    return d, f32[1](100.0), x
  }
  graph peek(x: f32[2], a: f32[2], n: f32[1], b: f32[2]) {
    d: f32[2] = add x a
    e: f32[1] = add n 0.0
    f: f32[2] = add b 0.0
    return e, d, f, a, n, b
  }
}
""")
"""Steps exchange a and b and count in n; `set` writes what it does not read, `peek` reads what it does not write."""

DELEGATES = pytest.mark.parametrize("delegates", [True, False], ids=["xnnpack", "plain"])
X = np.array([1.0, 10.0], np.float32)


def in_tensors(program: Program) -> set[str]:
    """The names of the states that the file keeps in tensors."""
    return {s.name for s in program.states() if s.home == "tensor"}


def runs(program: Program, delegates: bool) -> Callable[..., dict[str, np.ndarray]]:
    """The signatures of a program in one interpreter, by key."""
    runtime = LiteRt(to_bytes(program), delegates=delegates)
    return lambda key, **inputs: runtime.run(key, inputs)


def check(found: Mapping[str, np.ndarray], **wanted: Any) -> None:
    assert {name: value.tolist() for name, value in found.items()} == wanted


@DELEGATES
def test_reads_come_before_writes_and_signatures_share_variables(delegates: bool) -> None:
    run = runs(SWAP, delegates)
    check(run("peek", x=X * 0), n=[5.0], a=[1.0, 2.0], b=[3.0, 4.0])
    check(run("step", x=X), y=[7.0, 17.0], z=[4.0, 18.0])
    check(run("peek", x=X * 0), n=[6.0], a=[3.0, 4.0], b=[1.0, 2.0])
    check(run("step", x=X), y=[10.0, 20.0], z=[4.0, 18.0])
    check(run("set", x=X), y=[-1.0, -10.0])
    check(run("step", x=X), y=[102.0, 120.0], z=[4.0, 50.0])
    check(run("peek", x=X * 0), n=[101.0], a=[3.0, 4.0], b=[1.0, 10.0])


@DELEGATES
def test_whichever_signature_runs_first_finds_the_first_values(delegates: bool) -> None:
    check(runs(SWAP, delegates)("step", x=X), y=[7.0, 17.0], z=[4.0, 18.0])
    run = runs(SWAP, delegates)
    check(run("set", x=X), y=[-1.0, -10.0])
    check(run("peek", x=X * 0), n=[100.0], a=[1.0, 10.0], b=[3.0, 4.0])


def test_what_is_written_is_read_back() -> None:
    reads_back(SWAP, to_bytes(SWAP))
    loaded = load_tflite(to_bytes(SWAP))
    assert {s.name: s.initial.array.tolist() for s in loaded.states()} == {
        s.name: s.initial.array.tolist() for s in SWAP.states()
    }
    assert to_bytes(loaded) == to_bytes(SWAP)


def fused(batch: int = 2, units: int = 24, steps: object = 4, start: float = 0.0) -> Program:
    """An LSTM that keeps h and c, in TFLite's ops; its last step is what h becomes."""
    rng = np.random.default_rng(3)
    # As small as trained ones: recurrent weights of 1 make f32's rounding grow from step to step.
    scales = [(3, 0.5)] * 4 + [(units, units**-0.5)] * 4
    arrays = [rng.normal(size=(units, columns)) * scale for columns, scale in scales]
    consts = {f"w{i}": array.astype(np.float32) for i, array in enumerate(arrays)}
    bias = rng.normal(size=units).astype(np.float32)

    def layer(x: Any, h: Any, c: Any) -> Any:
        operands = [x, *consts.values(), None, None, None, *[bias] * 4, None, None, h, c]
        y, _, last = ops.unidirectional_sequence_lstm(*operands, time_major=True)
        return y, ops.strided_slice(y, [-1], [0], [1], end_mask=1, shrink_axis_mask=1), last

    state = TensorType((batch, units), DType.f32)
    graph = trace_graph(layer, [TensorType((steps, batch, 3), DType.f32), state, state])
    initial = Const(np.full((batch, units), start, np.float32))
    states = (State("h", initial), State("c", initial))
    return place_states(Program((Signature("main", graph, ("x",), ("y",), states),)), Context())


@DELEGATES
@pytest.mark.parametrize(("start", "in_place"), [(0.0, {"h", "c"}), (0.5, set())], ids=["zero", "half"])
def test_an_lstm_goes_on_where_the_last_call_ended(start: float, in_place: set[str], delegates: bool) -> None:
    program = fused(start=start)
    assert in_tensors(program) == in_place
    run, stream = runs(program, delegates), Model(program).stream()
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=(4, 2, 3)).astype(np.float32)
        # XLA's kernel is checked against TFLite's own in tests/kernels; here it carries the state as a value.
        np.testing.assert_allclose(run("main", x=x)["y"], stream.run({"x": x})["y"], atol=2e-6)


def test_only_state_tensors_are_reset_with_the_interpreter() -> None:
    x = np.ones((4, 2, 3), np.float32)
    for start, is_reset in ((0.0, True), (0.5, False)):
        interpreter = Interpreter(model_content=to_bytes(fused(start=start)))
        run = interpreter.get_signature_runner("main")
        first, second = run(x=x)["y"], run(x=x)["y"]
        interpreter.reset_all_variables()
        np.testing.assert_array_equal(np.array_equal(run(x=x)["y"], first), is_reset)
        assert not np.array_equal(first, second)


def test_states_in_tensors_are_read_back() -> None:
    program = fused()
    reads_back(program, to_bytes(program))
    assert to_bytes(load_tflite(to_bytes(program))) == to_bytes(program)


class Counter(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n = tf.Variable([2.0, 3.0])

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
    def count(self, x: Any) -> Any:
        """What was added up so far."""
        return self.n.assign_add(x) * 2.0


def test_a_file_of_the_official_converter() -> None:
    counter = Counter()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([counter.count.get_concrete_function()], counter)
    converter.experimental_enable_resource_variables = True
    data = converter.convert()
    stream, runtime = Model(load_tflite(data)).stream(), LiteRt(data)
    (signature,) = load_tflite(data).signatures
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=2).astype(np.float32)
        wanted = runtime.run(signature.key, {signature.input_names[0]: x})
        found = stream.run({signature.input_names[0]: x})
        np.testing.assert_allclose(found[signature.output_names[0]], next(iter(wanted.values())), rtol=1e-6)


def changed(program: Program, change: Callable[[Any], None]) -> bytes:
    """The file with its tables changed by hand."""
    model = schema.ModelT.InitFromPackedBuf(to_bytes(program), 0)
    change(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def without_first_values(model: Any) -> None:
    for subgraph in model.subgraphs:
        subgraph.operators = [o for o in subgraph.operators if o.builtinOptionsType != CALL_ONCE]


def with_computed_first_value(model: Any) -> None:
    initial = model.subgraphs[-1]
    assign = next(o for o in initial.operators if len(o.inputs) == 2)
    assign.inputs = np.array([assign.inputs[0], assign.inputs[0]], np.int32)


def with_another_type(model: Any) -> None:
    step = model.subgraphs[0]
    writes = [o for o in step.operators if len(o.inputs) == 2 and len(o.outputs) == 0]
    writes[0].inputs = np.array([writes[0].inputs[0], writes[1].inputs[1]], np.int32)


@pytest.mark.parametrize("change", [without_first_values, with_computed_first_value])
def test_variables_of_which_the_first_value_is_not_known_stay_resources(change: Callable[[Any], None]) -> None:
    program = load_tflite(changed(SWAP, change))
    assert program.states() == ()
    assert "opaque.read_variable" in str(program)
    assert str(load_tflite(to_bytes(program))) == str(program)


def test_a_variable_that_changes_its_type() -> None:
    message = r"the variable 'n' changes its type(.|\n)*f32\[1\](.|\n)*f32\[2\]"
    with pytest.raises(BadFlatbuffer, match=message):
        load_tflite(changed(SWAP, with_another_type))
