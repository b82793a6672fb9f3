"""`jfuse.verify`: any two of sources, files, models and functions; what it tries, finds and leaves behind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.measure import Measure
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Const, Program, Signature, State
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.proof.ranges import drawn_ranges
from jfuse.tflite.write.file import to_bytes
from tests.processor import NO_HALVES, compiles_halves
from tests.tflite.programs import loop

WEIGHTS = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
B = symbol("B")


def written(function: Callable[..., Any], *types: TensorType, names: tuple[str, ...] = ("x",)) -> bytes:
    """A file of a function over ops."""
    graph = trace_graph(function, types)
    outputs = tuple(f"output_{i}" for i in range(len(graph.outputs)))
    return to_bytes(Program((Signature("serving_default", graph, names, outputs),)))


def dense(x: Any) -> Any:
    return ops.tanh(ops.fully_connected(x, np.ascontiguousarray(WEIGHTS.T)))


def off_above(limit: float) -> Callable[[Any], Any]:
    """As `dense`, but wrong where the third feature is above a limit."""

    def call(x: Any) -> Any:
        third = ops.strided_slice(x, [0, 2], [0, 3], [1, 1], begin_mask=1, end_mask=1)
        return ops.add(dense(x), ops.mul(0.5, ops.cast(ops.greater(third, limit), out_data_type=DType.f32)))

    return call


ROWS = TensorType((B, 4), DType.f32)


@pytest.fixture(scope="module")
def source() -> Any:
    spec = tf.TensorSpec([None, 4], tf.float32, name="x")
    return tf.function(lambda x: tf.tanh(tf.matmul(x, WEIGHTS)), input_signature=[spec], autograph=False)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """right.tflite, and off.tflite which is wrong for some inputs."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "right.tflite").write_bytes(written(dense, ROWS))
    (folder / "off.tflite").write_bytes(written(off_above(1.5), ROWS))
    return folder


def of_jax(x: Any) -> Any:
    return jnp.tanh(x @ WEIGHTS)


def pairs(found: jfuse.Verification) -> set[str]:
    return {d.pair for d in found.differences}


def test_a_file_beside_its_source_and_the_other_way_round(source: Any, files: Path) -> None:
    for sides in ((files / "right.tflite", source), (source, str(files / "right.tflite"))):
        found = jfuse.verify(*sides)
        assert pairs(found) == {"tensorflow/xla", "tensorflow/litert"}
        assert found.passed
        assert all(d.reason == "f32 sums in another order" and d.samples >= 6 for d in found.differences)
        assert all(d.measure is not None and d.measure.snr > 100 for d in found.differences)


def test_two_files(files: Path) -> None:
    right = files / "right.tflite"
    assert pairs(jfuse.verify(right, right.read_bytes())) == {"litert/xla", "litert/litert"}
    with pytest.raises(jfuse.VerifyFailed, match=r"output 'output_0' .* differs \(litert/xla\)"):
        jfuse.verify(files / "off.tflite", right)


def test_a_file_alone_is_compared_with_its_graph(files: Path) -> None:
    assert pairs(jfuse.verify(files / "right.tflite")) == {"xla/litert"}


def test_functions_of_jax(source: Any, files: Path) -> None:
    assert pairs(jfuse.verify(files / "right.tflite", of_jax)) == {"jax/xla", "jax/litert"}
    assert pairs(jfuse.verify(of_jax, source)) == {"tensorflow/jax"}

    def stated(a: Any) -> Any:
        return of_jax(a)

    stated.input_signature = [np.zeros((2, 4), np.float32)]  # type: ignore[attr-defined]
    assert pairs(jfuse.verify(stated, of_jax)) == {"jax/jax"}
    with pytest.raises(jfuse.VerifyFailed, match=r"differs \(jax/litert\)|differs \(jax/xla\)"):
        jfuse.verify(files / "right.tflite", lambda x: -of_jax(x))


def test_a_model_that_is_not_lowered_is_compared_with_its_source() -> None:
    spec = tf.TensorSpec([3], tf.float32, name="x")

    def lacking(x: Any) -> Any:  # an op that TFLite has no spelling for
        return tf.math.betainc(1.5, 2.5, tf.sigmoid(x))

    model = jfuse.load(tf.function(lacking, input_signature=[spec], autograph=False))
    assert pairs(jfuse.verify(model)) == {"tensorflow/xla"}
    assert {d.pair for d in model.report.differences} == {"tensorflow/xla"}


def test_names_that_differ_are_matched_by_place(files: Path) -> None:
    other = written(lambda a, b: ops.sub(a, b), ROWS, ROWS, names=("a", "b"))
    found = jfuse.verify(other, lambda p, q: p - q)
    assert not found.notes  # a function has the file's names
    renamed = written(lambda p, q: ops.sub(p, q), ROWS, ROWS, names=("p", "q"))
    assert jfuse.verify(other, renamed).notes == [
        "matched by their places in signature 'serving_default': a = p, b = q"
    ]
    turned = written(lambda q, p: ops.sub(p, q), ROWS, ROWS, names=("b", "a"))
    assert jfuse.verify(other, turned).passed  # by their names


@pytest.mark.parametrize(
    ("other", "options", "message"),
    [
        (written(ops.neg, TensorType((B, 4), DType.i32)), {}, "take another input 'x'"),
        (written(ops.neg, TensorType((B, 5), DType.f32)), {}, "take another input 'x'"),
        (written(ops.add, ROWS, ROWS, names=("x", "y")), {}, "the inputs of signature 'serving_default' are not the"),
        (None, {"keys": ["absent"]}, "has no signature 'absent'"),
        (None, {"tolerance": {"z": 1e-3}}, "tolerance= has no output 'z'"),
        (None, {"sizes": {"Q": 3}}, "no open size is called 'Q'"),
        (None, {"edges": "sharp"}, "no edges 'sharp'"),
        (None, {"device": "rocm"}, "there is no device 'rocm'"),
        (None, {"inputs": np.zeros((2, 5), np.float32)}, "the given array for serving_default/x does not fit"),
        (None, {"inputs": {"y": np.zeros((2, 4), np.float32)}}, "the given inputs are not those of signature"),
        (None, {"inputs": (1, 2)}, "the given inputs are not those of signature"),
        (None, {"inputs": 3}, "inputs= takes inputs\n(.|\n)*found     3"),
        (None, {"inputs": "absent.npz"}, "absent.npz cannot be read"),
    ],
)
def test_what_does_not_fit_says_so(files: Path, other: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(jfuse.JfuseError, match=message):
        jfuse.verify(files / "right.tflite", other or of_jax, options=jfuse.Verify(**options))


def test_sizes_that_one_side_fixes_are_kept_to(files: Path) -> None:
    fixed = written(dense, TensorType((5, 4), DType.f32))
    assert jfuse.verify(files / "right.tflite", fixed).passed
    with pytest.raises(jfuse.JfuseError, match="the size B cannot be 3"):
        jfuse.verify(files / "right.tflite", fixed, sizes={"B": 3})


def given_inputs(folder: Path) -> Iterator[tuple[Any, int]]:
    array = np.ones((2, 4), np.float32)
    np.savez(folder / "one.npz", x=array)
    save: Any = np.savez
    save(folder / "row.npz", **{"0/serving_default/x": array, "1/serving_default/x": -array})
    yield array, 1
    yield {"x": array}, 1
    yield (array,), 1
    yield [array, array[:1], {"x": array}], 3
    yield (array * i for i in range(4)), 4
    yield tf.data.Dataset.from_tensor_slices(np.ones((6, 4), np.float32)).batch(4), 2
    yield folder / "one.npz", 1
    yield str(folder / "row.npz"), 2


def test_inputs_of_ones_own(files: Path, tmp_path: Path) -> None:
    for inputs, calls in given_inputs(tmp_path):
        assert jfuse.verify(files / "right.tflite", of_jax, inputs=inputs).samples == calls


def test_a_failing_input_is_shrunk_saved_and_shown_again(files: Path, tmp_path: Path) -> None:
    with pytest.raises(jfuse.VerifyFailed) as caught:
        jfuse.verify(files / "off.tflite", files / "right.tflite", save_failing=tmp_path / "failing")
    found = caught.value.verification
    assert not found.passed
    assert found.failing == tmp_path / "failing" / "failing-output_0.npz"
    ((key, inputs),) = found.inputs
    assert (key, inputs["x"].shape) == ("serving_default", (1, 4))
    assert np.flatnonzero(inputs["x"]).tolist() == [2]
    command = f"jfuse verify {files / 'off.tflite'} --against {files / 'right.tflite'} --inputs {found.failing}"
    assert found.command == command
    assert command in str(caught.value)
    with pytest.raises(jfuse.VerifyFailed):
        jfuse.verify(files / "off.tflite", files / "right.tflite", inputs=found.failing)
    with np.load(found.failing) as saved:
        assert saved.files == ["000/serving_default/x"]


def adding_up(limit: float) -> bytes:
    """A file that gives the sum of all its inputs so far, wrong where the first sum is above a limit."""

    def call(x: Any, total: Any) -> Any:
        total = ops.add(total, x)
        first = ops.strided_slice(total, [0], [1], [1])
        wrong = ops.mul(0.5, ops.cast(ops.greater(first, limit), out_data_type=DType.f32))
        return ops.add(total, wrong), total

    graph = trace_graph(call, [TensorType((4,), DType.f32)] * 2)
    total = State("total", Const(np.zeros(4, np.float32)))
    return to_bytes(Program((Signature("serving_default", graph, ("x",), ("y",), (total,)),)))


def test_samples_of_what_keeps_a_state_are_calls_in_a_row() -> None:
    right, late = adding_up(1e9), adding_up(15.0)  # 3.7 times the largest scale, 2.2 times that of sums of eight
    assert jfuse.verify(right, adding_up(1e8), jfuse.Verify(calls=4), samples=50, edges="none").samples == 4 + 50 * 4
    assert jfuse.verify(late, right, jfuse.Verify(calls=1), samples=60, edges="none").passed
    with pytest.raises(jfuse.VerifyFailed) as caught:
        jfuse.verify(late, right, jfuse.Verify(calls=8, shrink=0), samples=400, edges="none")
    calls = caught.value.verification.inputs
    assert 1 < len(calls) <= 8
    assert sum(np.asarray(inputs["x"])[0] for _, inputs in calls) > 15


def test_a_rare_fault_is_found_among_many_samples(files: Path) -> None:
    rare, right = written(off_above(10.5), ROWS), files / "right.tflite"
    assert jfuse.verify(rare, right, edges="none").passed
    done: list[int] = []
    options: dict[str, Any] = {"sizes": {"B": 4}, "on_progress": lambda count, total: done.append(count)}
    with pytest.raises(jfuse.VerifyFailed) as caught:
        jfuse.verify(rare, right, samples=800, edges="none", **options)
    assert (np.asarray(caught.value.verification.inputs[0][1]["x"])[:, 2] > 10.5).any()
    assert done == sorted(done)
    assert done[-1] >= 3
    assert jfuse.verify(right, of_jax, samples=10).samples == 10 + 6 + 6 + 1


def test_a_tolerance_of_ones_own(files: Path) -> None:
    near = written(lambda x: ops.mul(dense(x), 1.0001), ROWS)
    with pytest.raises(jfuse.VerifyFailed, match=r"at most 1e-05 \(f32 sums in another order\)"):
        jfuse.verify(near, of_jax)
    assert jfuse.verify(near, of_jax, tolerance=1e-3).differences[0].reason == "as asked for"
    assert jfuse.verify(near, of_jax, tolerance={"output_0": 1e-3}).passed
    with pytest.raises(jfuse.JfuseError, match=r"tolerance= has no output 'other'\n.*'output_0'"):
        jfuse.verify(near, of_jax, tolerance={"other": 1e-3})


def test_the_tolerance_of_halves_has_a_reason() -> None:
    if not compiles_halves():
        pytest.skip(NO_HALVES)
    half = written(lambda x: ops.cast(ops.cast(x, out_data_type=DType.f16), out_data_type=DType.f32), ROWS)
    assert jfuse.verify(half).differences[0].reason == "five roundings to f16, 2^-11 each"


def test_tolerances_have_reasons() -> None:
    whole = written(lambda x: ops.cast(ops.round_(x), out_data_type=DType.i32), ROWS)
    found = jfuse.verify(whole).differences[0]
    assert (found.tolerance, found.reason) == (0.0, "integers, bools and texts are equal or not")


def test_edges_find_what_random_numbers_do_not() -> None:
    def safe(x: Any) -> Any:  # of ones: as the source, of zeros: not
        return ops.add(ops.sqrt(ops.abs_(x)), ops.cast(ops.equal(x, 0.0), out_data_type=DType.f32))

    def wanted(x: Any) -> Any:
        return jnp.sqrt(jnp.abs(x))

    file = written(safe, ROWS)
    assert jfuse.verify(file, wanted, edges="none").passed
    with pytest.raises(jfuse.VerifyFailed):
        jfuse.verify(file, wanted)


def test_overflow_is_no_difference_and_nans_are_tried_when_asked_for() -> None:
    squares = written(lambda x: ops.sub(ops.mul(x, x), ops.mul(x, 2.0)), ROWS)
    found = jfuse.verify(squares, lambda x: x * x - 2 * x)
    assert [n for n in found.notes if "overflows" in n]
    chosen = written(
        lambda x: ops.mul(x, ops.cast(ops.logical_not(ops.less(x, 0.0)), out_data_type=DType.f32)), ROWS
    )  # a NaN passes
    assert jfuse.verify(chosen, lambda x: jnp.where(x > 0, x, 0.0)).passed
    with pytest.raises(jfuse.VerifyFailed):
        jfuse.verify(chosen, lambda x: jnp.where(x > 0, x, 0.0), edges="nan")


def test_an_empty_batch() -> None:
    file = written(ops.neg, ROWS)
    assert (
        jfuse.verify(file, lambda x: -x, jfuse.Verify(empty=True)).samples
        == jfuse.verify(file, lambda x: -x).samples + 1
    )


def test_numbers_of_steps_are_drawn_small() -> None:
    """What doubles at each of 100 steps would fill any memory."""
    signature = loop().signatures[0]
    counter, limit, _ = signature.graph.inputs
    assert {v: r.ends({}) for v, r in drawn_ranges(signature.graph).items()} == {counter: (0, 10), limit: (0, 10)}


@pytest.mark.parametrize(
    ("found", "wanted", "ulp"),
    [
        (1.0, np.nextafter(1.0, 2.0), 1),
        (-1.0, np.nextafter(-1.0, 0.0), 1),
        (5e-324, -5e-324, 2),
        (1e300, -1e300, math.inf),
    ],
)
def test_units_of_doubles_are_exact(found: float, wanted: float, ulp: float) -> None:
    measured = Measure.of(np.array([found]), np.array([wanted])).ulp
    assert measured == ulp if math.isfinite(ulp) else measured > 2.0**62


def test_what_selects_nothing_is_tried_where_data_decides_sizes() -> None:
    """Random numbers are never all negative, zeros are: LiteRT answers for an empty selection as well."""
    spec = tf.TensorSpec([None, 2], tf.float32, name="x")
    chosen = tf.function(lambda x: tf.boolean_mask(x, x[:, 0] > 0) * 2.0, input_signature=[spec], autograph=False)
    lite = jfuse.convert(chosen)
    assert [d.samples for d in lite.report.differences] == [2 * 3 + 3 + 1] * 2

    def loses(x: Any) -> Any:  # right unless nothing is chosen
        found = tf.boolean_mask(x, x[:, 0] > 0) * 2.0
        return tf.cond(tf.shape(found)[0] > 0, lambda: found, lambda: x)

    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(lite, tf.function(loses, input_signature=[spec], autograph=False), sizes={"B": 60}, edges="none")


@pytest.mark.parametrize("function", [lambda x: {}, lambda x: {"y": x[:0]}], ids=["no outputs", "no elements"])
def test_what_holds_no_number_is_told(function: Any) -> None:
    source = jfuse.load(tf.function(function, input_signature=[tf.TensorSpec([2, 4], tf.float32, name="x")]))
    assert any("nothing was compared" in note for note in jfuse.verify(source, source).notes)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_floats_beyond_an_integer_are_no_fault(dtype: str) -> None:
    """TensorFlow gives the least integer for all of them, LiteRT the nearest."""
    specs = [tf.TensorSpec([4], tf.float32, name="x")]
    source = tf.function(lambda x: tf.cast(3 * x, dtype), input_signature=specs)
    assert jfuse.verify(jfuse.convert(source, verify=False).to_bytes(), source).passed
