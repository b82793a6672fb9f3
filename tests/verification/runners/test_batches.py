"""Many samples at once against the same samples one by one: on XLA, in LiteRT's processes, as one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jfuse.base.errors import VerifyFailed
from jfuse.ir.graph import Program
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.proof.inputs import concrete
from jfuse.running.cores import cores
from jfuse.running.interpreter import LiteRt
from jfuse.running.litert_workers import LiteRtWorkers
from jfuse.running.over_samples import OverSamples, Together, calls_in_a_row, samples_at_once, samples_for_quick
from jfuse.running.worker import Refused
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from jfuse.verification.compare.comparison import Comparison
from jfuse.verification.compare.tolerance import Tolerance
from jfuse.verification.runners.in_jax import InJax
from jfuse.verification.runners.in_litert import InLiteRt
from jfuse.verification.runners.joined import can_be_joined, run_joined
from jfuse.verification.runners.on_xla import OnXla
from jfuse.verification.runners.one_by_one import one_by_one
from jfuse.verification.subject import Interface
from tests.kernels.fused.lstm_oracle import LSTM, file_of
from tests.tflite import programs
from tests.tflite.programs import BATCH, KEY, f32, i32, program
from tests.verification.runners.sample_batches import batch_of

RNG = np.random.default_rng(11)
TOLERANCE = 1e-6  # of values up to 4: sums of a dozen products in another order
SAMPLES = 37  # which no number of devices or cores divides


def draw(of: Program, count: int = SAMPLES) -> dict[str, np.ndarray]:
    """Samples for each input of a program's signature, which has a batch of 2."""
    (signature,) = of.signatures
    return {
        name: _array((count, *concrete(var.type.shape, {str(BATCH): 2})), var.type.dtype)
        for name, var in zip(signature.input_names, signature.graph.inputs, strict=False)
    }


def _array(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    if dtype.is_float:
        return RNG.normal(size=shape).astype(dtype.numpy)
    least = 0 if dtype is DType.bool else 1  # from two zeros the loop never ends
    return RNG.integers(least, least + 2, shape).astype(dtype.numpy)


def wide() -> Program:
    """64-bit integers, which jax narrows by default."""
    return program(lambda x: ops.mul(x, np.int64(2**40)), TensorType((BATCH, 3), DType.i64))


PROGRAMS = {"dense": programs.dense, "loop": programs.loop, "branches": programs.branches, "lstm": programs.lstm}
each_program = pytest.mark.parametrize("make", [*PROGRAMS.values(), wide], ids=[*PROGRAMS, "wide"])


def assert_alike(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert (found[name].shape, found[name].dtype) == (value.shape, value.dtype)
        np.testing.assert_allclose(found[name], value, rtol=0, atol=4 * TOLERANCE)


@each_program
def test_on_xla(make: Callable[[], Program]) -> None:
    subject, inputs = OnXla(Model(make())), draw(make())
    assert_alike(subject.batch(inputs, KEY), one_by_one(subject, inputs, KEY))
    assert subject.singly(KEY) is None


@each_program
def test_in_litert(make: Callable[[], Program]) -> None:
    subject, inputs = InLiteRt(to_bytes(make()), make()), draw(make())
    assert_alike(subject.batch(inputs, KEY), one_by_one(subject, inputs, KEY))


@pytest.fixture(scope="module")
def stateful() -> tuple[bytes, Program, dict[str, np.ndarray]]:
    """An LSTM that keeps its state between calls, and samples for it."""
    lstm = LSTM()
    data = file_of(lstm)
    of = load_tflite(data)
    (signature,) = of.signatures
    assert signature.states
    x = lstm.inputs_and_state()[0]
    return data, of, {signature.input_names[0]: RNG.normal(size=(SAMPLES, *x.shape)).astype(np.float32)}


def test_each_sample_is_a_first_call(stateful: tuple[bytes, Program, dict[str, np.ndarray]]) -> None:
    _, of, inputs = stateful
    key = of.signatures[0].key
    on_xla, in_litert = OnXla(Model(of)), InLiteRt(to_bytes(of), of)
    wanted = one_by_one(in_litert, inputs, key)
    assert_alike(in_litert.batch(inputs, key), wanted)
    assert_alike(on_xla.batch(inputs, key), wanted)


def test_a_sample_may_be_calls_in_a_row(stateful: tuple[bytes, Program, dict[str, np.ndarray]]) -> None:
    _, of, first = stateful
    key = of.signatures[0].key
    rows = {name: RNG.normal(size=(SAMPLES, 3, *array.shape[1:])).astype(np.float32) for name, array in first.items()}
    litert = LiteRt(to_bytes(of))
    wanted = [litert.run(key, {name: array[-1, i] for name, array in rows.items()}) for i in range(3)]
    on_xla, in_litert = OnXla(Model(of)), InLiteRt(to_bytes(of), of)
    for found in (on_xla.batch(rows, key, in_a_row=True), in_litert.batch(rows, key, in_a_row=True)):
        assert_alike(
            {name: array[-1] for name, array in found.items()},
            {name: np.stack([outputs[name] for outputs in wanted]) for name in wanted[0]},
        )
    anew = on_xla.batch({name: array[:, 2] for name, array in rows.items()}, key)
    assert all(np.abs(anew[name][-1] - wanted[2][name]).max() > 1000 * TOLERANCE for name in anew)
    assert on_xla.singly(key) is None


def test_one_compilation_serves_batches_that_shrink() -> None:
    traced = []

    def double(x: Any) -> tuple[Any]:
        traced.append(x.shape)
        return (2 * x,)

    over = OverSamples(double)
    for count in (11, 4, 1):
        x = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
        np.testing.assert_array_equal(over([x])[0], 2 * x)
    assert traced == [(3,)]


def test_a_row_of_one_call_is_no_loop() -> None:
    """XLA's convolutions take thirty times as long within one."""

    def call(weights: Any, x: Any, state: Any) -> tuple[Any, Any]:
        return weights * x + state, state + 1

    x, state = RNG.normal(size=(5, 1, 3)).astype(np.float32), np.float32(2.0)
    row = calls_in_a_row(call, 1, 1)
    assert "scan" not in str(jax.make_jaxpr(row)(np.float32(3.0), x[0], state))
    assert "scan" in str(jax.make_jaxpr(row)(np.float32(3.0), np.zeros((2, 3), np.float32), state))
    found, after = OverSamples(row, [np.float32(3.0)], [state])([x])
    np.testing.assert_allclose(found, 3 * x + 2, rtol=1e-6)  # a product and a sum
    np.testing.assert_array_equal(after, [3.0] * 5)


@pytest.mark.parametrize(("expected", "counts", "programs_"), [(0, (3, 3), 1), (0, (3, 4), 2), (9, (3, 4), 1)])
def test_a_quick_program_serves_as_many_samples_as_pay(expected: int, counts: tuple[int, ...], programs_: int) -> None:
    """Samples beyond them get another program, and the first ones too where more are expected."""
    traced = []

    def double(x: Any) -> tuple[Any]:
        traced.append(x.shape)
        return (2 * x,)

    over = OverSamples(double, quick=6, expected=expected)
    for count in counts:
        x = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
        np.testing.assert_array_equal(over([x])[0], 2 * x)
    assert len(over._programs) == programs_


def test_few_samples_need_no_other_program_than_single_calls() -> None:
    (signature,) = programs.dense().signatures
    subject = OnXla(Model(programs.dense()))
    most = samples_for_quick(signature.graph, {str(BATCH): 2}, singly=True)
    inputs = draw(programs.dense(), most // 2)
    assert_alike(subject.batch(inputs, KEY), one_by_one(subject, inputs, KEY))
    assert not subject._programs
    subject.batch(draw(programs.dense(), most), KEY)  # more, together with the first
    assert subject._programs


def test_runs_of_bounded_size_give_all_samples() -> None:
    x = np.arange(1000, dtype=np.float32).reshape(500, 2)
    found = OverSamples(lambda a: (a, jnp.sum(a)), most=8)([x])
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], x.sum(1))


@pytest.mark.parametrize("dtype", [DType.bf16, DType.i64, DType.bool])
def test_runs_keep_dtypes(dtype: DType) -> None:
    samples = np.arange(33).reshape(11, 3).astype(dtype.numpy)
    same, largest = OverSamples(lambda x: (x, jnp.max(x)), most=2)([samples])
    assert same.dtype == largest.dtype == dtype.numpy
    np.testing.assert_array_equal(same, samples)
    np.testing.assert_array_equal(largest, samples.max(1))


def test_a_program_serves_batches_that_are_somewhat_larger() -> None:
    """Two runs of 65 samples on each core, then one of 120 would do: another compilation takes longer than two."""
    traced: list[Any] = []

    def double(x: Any) -> Any:
        traced.append(x)
        return 2 * x

    runs = OverSamples(double, most=128)
    for each in (130, 120, 3):
        x = np.arange(cores() * each, dtype=np.float32)
        np.testing.assert_array_equal(runs([x]), 2 * x)
    assert len(traced) == 1


def test_what_numpy_makes_of_each_run() -> None:
    """Results and totals of runs of two samples, the last one filled up with a copy that does not count."""
    x = np.arange(7, dtype=np.float32)
    runs = OverSamples(
        lambda weight, x: (2 * x, ()), most=2, totals=True, after=lambda r, _: (r + 1, np.array([len(r)]))
    )
    results, totals = runs([x])
    np.testing.assert_array_equal(results, 2 * x + 1)
    assert totals == 7


def test_samples_are_on_all_devices() -> None:
    seen = []

    def look(x: Any) -> Any:
        jax.debug.inspect_array_sharding(x, callback=lambda s: seen.append(len(s.device_set)))
        return x

    OverSamples(look)([np.zeros((6, 2), np.float32)])
    assert seen == [len(jax.devices())]
    assert len(jax.devices()) > 1


def test_how_many_samples_run_at_once() -> None:
    (dense,) = (s.graph for s in programs.dense().signatures)
    large = program(lambda x: ops.relu(x), f32(2**20)).signatures[0].graph
    assert samples_at_once(dense, "cpu") == 4096
    assert samples_at_once(large, "cpu") == 64
    assert samples_at_once(large, "gpu") == 64
    assert samples_at_once(dense, "gpu") == 4096


def test_sizes_that_data_decides_run_one_by_one() -> None:
    of = program(
        lambda x: ops.reduce_max(ops.cast(ops.where(ops.greater(x, 0.0)), out_data_type=DType.f32), [0]), f32(5)
    )
    subject, inputs = OnXla(Model(of)), {"x0": np.abs(RNG.normal(size=(4, 5))).astype(np.float32)}
    np.testing.assert_array_equal(subject.batch(inputs, KEY)["y0"], [[4.0]] * 4)
    assert "depends on data" in str(subject.singly(KEY))
    same = InLiteRt(to_bytes(of), of)
    comparison = Comparison(same, [subject], {KEY: of.signatures[0]}, lambda key, output: Tolerance(0.0, "integers"))
    comparison.samples([batch_of(of.signatures[0], inputs)])
    assert comparison.calls == 4
    assert [n for n in comparison.notes if n.startswith("XLA computed samples one by one: the result size of where")]


def test_a_function_of_jax() -> None:
    types = {"x": f32(3), "y": f32()}
    inputs = {"x": RNG.normal(size=(9, 3)).astype(np.float32), "y": RNG.normal(size=9).astype(np.float32)}
    plain = InJax(lambda x, y: {"sum": x + y, "y": y}, types)
    assert_alike(plain.batch(inputs, KEY), one_by_one(plain, inputs, KEY))
    assert plain.singly(KEY) is None
    on_values = Together(lambda: OverSamples(lambda x: x if float(x[0]) > 0 else -x))
    assert on_values.run([inputs["x"]]) is None
    assert "Abstract tracer value" in str(on_values.why_not) or "concrete" in str(on_values.why_not)


def test_an_operator_that_ends_its_process_is_told_with_the_sample() -> None:
    data = to_bytes(program(lambda x, y: ops.floor_mod(x, y), i32(3), i32(3)))
    x, y = np.full((SAMPLES, 3), 7, np.int32), np.full((SAMPLES, 3), 4, np.int32)
    workers = LiteRtWorkers(data, 2)
    np.testing.assert_array_equal(workers.run({"x0": x, "x1": y}, KEY)["y0"], x % y)
    x[29], y[29] = np.iinfo(np.int32).min, -1  # the quotient is no int32: the processor refuses
    with pytest.raises(VerifyFailed, match=r"takes its process down on sample 29\n.*signal 8"):
        workers.run({"x0": x, "x1": y}, KEY)
    np.testing.assert_array_equal(workers.run({"x0": x[:9], "x1": y[:9]}, KEY)["y0"], x[:9] % y[:9])
    workers.close()


def test_a_file_that_cannot_be_loaded() -> None:
    workers = LiteRtWorkers(b"no file", 1)
    with pytest.raises(VerifyFailed, match="LiteRT does not load the file"):
        workers.run({"x0": np.zeros((2, 1), np.float32)}, KEY)


def test_inputs_that_litert_refuses() -> None:
    workers = LiteRtWorkers(to_bytes(programs.dense()), 2)
    with pytest.raises(Refused, match="sample 0"):
        workers.run({"x0": np.zeros((4, 2, 9), np.float32)}, KEY)
    workers.close()
    subject = InLiteRt(to_bytes(programs.dense()), programs.dense())
    with pytest.raises(VerifyFailed, match="LiteRT does not run the signature"):
        subject.batch({"x0": np.zeros((SAMPLES, 2, 9), np.float32)}, KEY)


@pytest.fixture
def dense() -> LiteRt:
    return LiteRt(to_bytes(programs.dense()))


def test_independent_rows_are_joined(dense: LiteRt) -> None:
    inputs = draw(programs.dense())
    calls = []

    def run(given: Any) -> dict[str, np.ndarray]:
        calls.append(given["x0"].shape[0])
        return {name: value for name, value in dense.run(KEY, given).items() if name != "y2"}

    found = run_joined(run, inputs)
    assert found is not None
    assert calls == [2 * SAMPLES, 2, 2]
    for i in (0, 5, SAMPLES - 1):
        np.testing.assert_allclose(found["y0"][i], programs.dense_reference(inputs["x0"][i])[0], rtol=0, atol=1e-5)


def test_rows_that_mix_are_not_joined() -> None:
    inputs = {"x": RNG.normal(size=(5, 2, 3)).astype(np.float32)}
    assert run_joined(lambda given: {"y": given["x"] - given["x"].mean(0)}, inputs) is None
    assert run_joined(lambda given: {"y": given["x"].sum(0)}, inputs) is None
    assert can_be_joined(Interface({"x": f32(BATCH, 3)}, ("y",)))
    assert not can_be_joined(Interface({"x": f32(BATCH, 3), "y": f32(2, 3)}, ("y",)))
    assert not can_be_joined(Interface({}, ("y",)))


def test_loops_that_ask_the_host_run_on_one_device() -> None:
    """Split over two, some wait for each other and for the host, until XLA ends the process."""

    def powers(x: jax.Array) -> jax.Array:
        def double(x: jax.Array) -> Any:
            return jax.pure_callback(lambda x: 2 * x, x, x, vmap_method="expand_dims")

        last: jax.Array = jax.lax.while_loop(lambda x: x < 100, double, x)
        return last

    starts = np.arange(1, SAMPLES + 1, dtype=np.float32)
    wanted = starts * 2 ** np.ceil(np.log2(100 / starts))
    asking, plain = OverSamples(powers), OverSamples(lambda x: 2 * x)
    np.testing.assert_array_equal(asking([starts]), wanted)
    np.testing.assert_array_equal(plain([starts]), 2 * starts)
    assert (asking.devices, plain.devices) == (1, 2)
