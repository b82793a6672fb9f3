"""Whole-model comparison: a difference anywhere is an error that names the first equation that differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.api import sides as parties
from jfuse.base.measure import Measure, relative_error
from jfuse.ir.graph import Const, Eqn, Graph, Program, Signature, State
from jfuse.ir.states import first_states
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.tflite.write.file import to_bytes
from jfuse.verification.compare.read_back import reads_back
from jfuse.verification.compare.tolerance import tolerance_of

GENERATOR = np.random.default_rng(0)
KERNELS = [GENERATOR.standard_normal((4, 4)).astype(np.float32) for _ in range(3)]


@pytest.fixture(scope="module")
def model() -> jfuse.Model:
    def layers(x: Any) -> Any:
        for i, kernel in enumerate(KERNELS):
            with tf.name_scope(f"layer{i}"):
                x = tf.tanh(tf.matmul(x, kernel, name="product"), name="act")
        return x

    return jfuse.load(tf.function(layers, input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")]))


@pytest.fixture(scope="module")
def lite(model: jfuse.Model) -> jfuse.Model:
    return jfuse.lower(model)


def with_fault(program: Program, node: str, change: Callable[[Eqn], Eqn]) -> Program:
    """The program with the equation of one node changed."""

    def changed(graph: Graph) -> Graph:
        return replace(graph, eqns=tuple(change(e) if e.source.node == node else e for e in graph.eqns))

    return Program(tuple(replace(s, graph=changed(s.graph)) for s in program.signatures))


def transposed_weights(eqn: Eqn) -> Eqn:
    weights = eqn.inputs[1]
    assert isinstance(weights, Const)
    return replace(eqn, inputs=(eqn.inputs[0], Const(np.ascontiguousarray(weights.array.T)), *eqn.inputs[2:]))


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_fault_of_the_lowering_is_found_at_its_node(model: jfuse.Model, lite: jfuse.Model, layer: int) -> None:
    node = f"layer{layer}/product"
    broken = jfuse.Model(with_fault(lite.program, node, transposed_weights), lite.imported)
    with pytest.raises(jfuse.VerifyFailed, match=rf"\(tensorflow/xla\) at {node}") as caught:
        jfuse.verify(broken, model)
    assert "fully_connected" in str(caught.value)


@pytest.mark.parametrize("layer", [0, 2])
def test_a_fault_of_the_file_is_found_at_its_operator(
    model: jfuse.Model, lite: jfuse.Model, layer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = f"layer{layer}/product"
    broken = to_bytes(with_fault(lite.program, node, transposed_weights))
    monkeypatch.setattr(lite, "_bytes", broken)
    with pytest.raises(jfuse.VerifyFailed, match="does not read back as signature 'serving_default'"):
        jfuse.verify(lite, model)
    monkeypatch.setattr(parties, "reads_back", lambda program, data: None)
    with pytest.raises(jfuse.VerifyFailed, match=rf"\(tensorflow/litert\) at {node}"):
        jfuse.verify(lite, model)


def test_a_state_that_is_not_written_anew_is_found_on_the_second_invoke(lite: jfuse.Model) -> None:
    """What the official converter does to Keras 2 LSTMs: right once, wrong from then on."""
    calls = iter(range(100))

    class Forgetful(jfuse.Model):
        def step(self, *args: Any, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
            found, after = super().step(*args, **options)
            return {name: value + (next(calls) > 0) for name, value in found.items()}, after

    with pytest.raises(jfuse.VerifyFailed, match="tensorflow/xla"):
        jfuse.verify(Forgetful(lite.program, lite.imported), lite)


class Sum(tf.Module):
    """Adds up what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.total = tf.Variable([1.0, 2.0], name="total")

    def add(self, x: Any) -> Any:
        return self.total.assign_add(x) * 2.0


@pytest.fixture
def adder() -> tuple[Sum, jfuse.Model]:
    module = Sum()
    return module, jfuse.load(tf.function(module.add, input_signature=[tf.TensorSpec([2], name="x")], autograph=False))


def test_rows_of_calls_are_compared_and_variables_put_back(adder: tuple[Sum, jfuse.Model]) -> None:
    module, model = adder
    module.total.assign([5.0, 6.0])  # since the import: the comparison starts from what was imported
    report = jfuse.verify(jfuse.lower(model), model)
    assert [(d.output, d.pair) for d in report.differences] == [
        ("output_0", "tensorflow/xla"),
        ("state total", "tensorflow/xla"),
        ("output_0", "tensorflow/litert"),
    ]
    assert module.total.numpy().tolist() == [5.0, 6.0]


def test_a_state_that_is_lost_is_found_on_the_second_call(adder: tuple[Sum, jfuse.Model]) -> None:
    module, model = adder
    lite = jfuse.lower(model)

    class Lossy(jfuse.Model):
        def step(self, states: Any, *args: Any, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
            return super().step(first_states(self.program), *args, **options)

    with pytest.raises(jfuse.VerifyFailed, match=r"output 'output_0' .* differs \(tensorflow/xla\)"):
        jfuse.verify(Lossy(lite.program, lite.imported), model)
    assert module.total.numpy().tolist() == [1.0, 2.0]


def test_a_file_that_starts_elsewhere_does_not_read_back(adder: tuple[Sum, jfuse.Model]) -> None:
    _, model = adder
    lite = jfuse.lower(model)
    (signature,) = lite.program.signatures
    moved = (State("total", Const(np.array([1.0, 3.0], np.float32))),)
    other = jfuse.Model(Program((replace(signature, states=moved),)), lite.imported)
    with pytest.raises(jfuse.VerifyFailed, match="does not keep the states"):
        reads_back(other.program, lite.to_bytes())


@pytest.mark.parametrize(
    ("state", "pairs"),
    [
        ("reset", {"tensorflow/xla", "tensorflow/litert", "xla/litert"}),
        ("io", {"tensorflow/xla", "tensorflow/litert", "xla/litert"}),
    ],
)
def test_what_the_source_does_not_keep_alike_is_compared_with_its_first_call(
    adder: tuple[Sum, jfuse.Model], state: Any, pairs: set[str]
) -> None:
    module, model = adder
    report = jfuse.verify(jfuse.lower(model, state=state), model)
    assert {d.pair for d in report.differences} == pairs
    assert module.total.numpy().tolist() == [1.0, 2.0]


def test_inputs_that_tensorflow_refuses_say_so() -> None:
    def guarded(x: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(x, -1e9)]):
            return tf.identity(x)

    function = tf.function(guarded, input_signature=[tf.TensorSpec([2], tf.float32, name="x")])
    with pytest.raises(jfuse.VerifyFailed, match="TensorFlow fails on the inputs"):
        jfuse.convert(function)


def test_the_reason_is_tensorflows_own() -> None:
    table = np.ones((3, 2), np.float32)
    specs = [tf.TensorSpec([2], tf.int32, name="ids")]
    function = tf.function(lambda ids: tf.gather(table, tf.abs(ids) + 100), input_signature=specs, autograph=False)
    with pytest.raises(jfuse.VerifyFailed, match=r"found .*indices\[0\] = \d+ is not in \[0, 3\)\n"):
        jfuse.convert(function)


def test_sizes_that_a_loop_knows_are_not_in_the_file() -> None:
    """A carried size stays known in the loop's bodies, which the text form prints and a file cannot hold."""

    def shrunk(x: Any) -> Any:
        size = tf.shape(x)[0]
        return tf.while_loop(lambda i, v: (i < size) & (i < 2), lambda i, v: (i + 1, v * 0.5), (0, x))[1]

    function = tf.function(shrunk, input_signature=[tf.TensorSpec([None, 3], tf.float32)], autograph=False)
    assert jfuse.convert(function).report.differences


@pytest.mark.parametrize(
    ("found", "wanted", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.2], [1.0, 2.0], 0.1),
        ([0.0], [0.0], 0.0),
        ([1e-9], [0.0], np.inf),
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.nan], [1.0], np.inf),
        ([np.inf], [-np.inf], np.inf),
        ([1.0, 2.0], [1.0], np.inf),
    ],
)
def test_the_measure(found: list[float], wanted: list[float], error: float) -> None:
    assert relative_error(np.array(found), np.array(wanted)) == pytest.approx(error)


ODD = [
    ([np.nan, 1.0], [-np.inf, 1.0]),
    ([np.inf, 1.0], [-np.inf, 1.0]),
    ([-np.inf, 1.0], [np.inf, 1.0]),
    ([np.inf, 1.0], [np.nan, 1.0]),
    ([np.nan, 1.0], [0.0, 1.0]),
    ([0.0, 1.0], [np.nan, 1.0]),
    ([np.inf, 1.0], [3e4, 1.0]),
    ([3e4, 1.0], [-np.inf, 1.0]),
    ([np.nan, np.nan], [np.nan, np.inf]),
]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", ml_dtypes.bfloat16])
@pytest.mark.parametrize(("found", "wanted"), ODD)
def test_nans_and_infinities_agree_in_kind_and_sign(found: list[float], wanted: list[float], dtype: Any) -> None:
    a, b = np.array(found).astype(dtype), np.array(wanted).astype(dtype)
    assert relative_error(a, b) == relative_error(a, b, np.ones(2)) == np.inf
    assert Measure.of(a, b).absolute == Measure.of(a, b).relative == np.inf
    assert Measure.of(a, a) == Measure.of(b, b) == Measure(0.0, 0.0, 0.0, 1.0, np.inf)


@pytest.mark.parametrize("options", [{}, {"samples": 1}, {"samples": 64}, {"calls": 1}], ids=str)
@pytest.mark.parametrize(("found", "wanted"), [([np.nan, 1.0], [-np.inf, 1.0]), ([np.inf, 1.0], [-np.inf, 1.0])])
def test_another_value_that_is_no_number_fails(
    found: list[float], wanted: list[float], options: dict[str, Any]
) -> None:
    """The file gives the one, the source the other, in single calls and in the samples of LiteRT's workers."""
    spec = tf.TensorSpec([2], tf.float32, name="x")

    def giving(values: list[float]) -> Any:
        constant = np.array(values, np.float32)
        return tf.function(lambda x: tf.abs(x) * 0 + constant, input_signature=[spec], autograph=False)

    lite = jfuse.convert(giving(found))
    assert jfuse.verify(lite, giving(found), jfuse.Verify(edges="none", **options)).passed
    with pytest.raises(jfuse.VerifyFailed, match=r"max\|a-b\| inf"):
        jfuse.verify(lite, giving(wanted), jfuse.Verify(edges="none", **options))


def test_among_samples_alone_another_value_that_is_no_number_fails() -> None:
    """Nothing but the batches reaches it."""
    spec = tf.TensorSpec([2], tf.float32, name="x")
    source, other = (
        tf.function(lambda x, y=y: tf.where(x > 3.2, y, x), input_signature=[spec], autograph=False)
        for y in (-np.inf, np.nan)
    )
    lite = jfuse.convert(source)
    assert jfuse.verify(lite, other, edges="none").passed
    with pytest.raises(jfuse.VerifyFailed, match="tensorflow/xla"):
        jfuse.verify(lite, other, edges="none", samples=2000)


class Weights(tf.Module):
    def __init__(self, values: Any) -> None:
        super().__init__()
        self.kernel = tf.Variable(values, name="kernel")

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")], autograph=False)
    def __call__(self, x: Any) -> Any:
        return {"y": x @ self.kernel, "zero": tf.nn.relu(-tf.abs(x)), "x": x + 1.0}


class Unnamed(tf.Module):
    """Two variables that TensorFlow calls Variable, and a file numbers in its own order."""

    def __init__(self, first: Any) -> None:
        super().__init__()
        self.first, self.second = tf.Variable(first), tf.Variable([3.0, 4.0])

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="x")], autograph=False)
    def __call__(self, x: Any) -> Any:
        self.first.assign_add(x)
        self.second.assign(self.second * 0.5 + x)
        return self.first * 2.0 + self.second


@pytest.mark.parametrize("first", [[1.0, 2.0], [3.0, 4.0]])
def test_an_official_file_of_variables_without_names(first: list[float], tmp_path: Path) -> None:
    module = Unnamed(first)
    tf.saved_model.save(module, str(tmp_path / "model"))
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "model"))
    converter.experimental_enable_resource_variables = True
    data = converter.convert()
    found = jfuse.verify(data, module.__call__)
    assert found.passed
    assert "the states Variable, Variable_1 were not compared: they have no names, and files number them anew" in (
        found.notes
    )
    wrong = Unnamed([1.0, 2.5])
    with pytest.raises(jfuse.VerifyFailed, match="output 'output_0'"):
        jfuse.verify(data, wrong.__call__)
    own = jfuse.verify(jfuse.convert(module.__call__), edges="none")
    assert {d.output for d in own.differences} >= {"state Variable", "state Variable_1"}


def test_weights_that_are_nan_are_named(caplog: pytest.LogCaptureFixture) -> None:
    module = Weights(np.full((4, 2), np.nan, np.float32))
    report = jfuse.convert(module.__call__).report
    told = "the variable 'kernel' holds 8 NaN among 8 numbers: values computed from it are NaN"
    assert told in report.notes
    assert [r.getMessage() for r in caplog.records if r.name == "jfuse"] == [told]
    assert "'y' of 'serving_default' is NaN in all 6 calls that were compared" in report.notes


def test_outputs_that_tell_nothing_are_named() -> None:
    module = Weights(np.ones((4, 2), np.float32))
    notes = jfuse.convert(module.__call__).report.notes
    assert [n for n in notes if "calls that were compared" in n] == [
        "'zero' of 'serving_default' is the same in all 6 calls that were compared"
    ]


def test_integers_are_equal_or_not() -> None:
    assert relative_error(np.array([1, 2]), np.array([1, 2])) == 0.0
    assert relative_error(np.array([1, 2]), np.array([1, 3])) == np.inf


@pytest.mark.parametrize(("layers", "tolerance"), [(1, 1e-5), (200, 1e-5), (400, 2e-5)])
def test_the_tolerance_grows_with_hundreds_of_products(layers: int, tolerance: float) -> None:
    def deep(x: Any) -> Any:
        for _ in range(layers):
            x = ops.tanh(ops.fully_connected(x, KERNELS[0]))
        return x

    graph = trace_graph(deep, [TensorType((2, 4), DType.f32)])
    program = Program((Signature("deep", graph, ("x",), ("y",)),))
    assert tolerance_of(program, "deep", "y").value == pytest.approx(tolerance)


@pytest.mark.parametrize("dtype", [DType.i8, DType.i32, DType.i64, DType.u8, DType.bool])
def test_what_is_no_float_has_no_tolerance(dtype: DType) -> None:
    graph = trace_graph(lambda x: ops.reverse_v2(x, [0]), [TensorType((2, 4), dtype)])
    program = Program((Signature("turned", graph, ("x",), ("y",)),))
    assert tolerance_of(program, "turned", "y").value == 0


def test_ids_that_tensorflow_refuses_are_drawn_smaller() -> None:
    table = np.arange(24, dtype=np.float32).reshape(6, 4)
    spec = tf.TensorSpec([3], tf.int32, name="ids")
    shifted = tf.function(lambda ids: tf.gather(table, ids + 4), input_signature=[spec], autograph=False)
    assert all(d.error == 0 for d in jfuse.convert(shifted).report.differences)
