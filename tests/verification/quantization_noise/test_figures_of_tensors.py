"""The figures of each tensor, against formulas in NumPy; planted damage is ranked first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Const, Eqn, Program, Source
from jfuse.ir.quantization import Quantization
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import while_
from jfuse.model import Model
from jfuse.passes.rewrite import rewrite
from jfuse.quantization.recipe import Recipe
from jfuse.quantization.statistics import Record, Statistics
from jfuse.verification.quantization_noise.measured import measured
from jfuse.verification.quantization_noise.report import QuantizeReport, TensorNoise
from tests.passes.quantize.models import (
    calibrated,
    calibrator,
    drawn,
    in_litert,
    program_of,
    quantization,
    quantized,
    snr_db,
)

ROW = TensorType((2, 24), DType.f32)
WEIGHTS = [drawn(32, 24, scale=0.2, seed=1), drawn(16, 32, scale=0.2, seed=2), drawn(16, 16, scale=0.2, seed=3)]
BIAS = drawn(32, seed=4)
CALLS = [{"x0": drawn(2, 24, seed=seed)} for seed in range(6)]


def dense(x: Any) -> Any:
    """Three layers, each an output, so that runtimes tell all values."""
    found = []
    for i, (weights, bias) in enumerate(zip(WEIGHTS, (BIAS, None, None), strict=True)):
        with at_source(Source(f"layer_{i}/MatMul", "MatMul")):
            activation = "RELU" if i == 0 else "NONE"
            x = ops.fully_connected(x, weights, bias, fused_activation_function=activation)
        found.append(x)
    return tuple(found)


def floats_of(x: np.ndarray) -> list[np.ndarray]:
    first = np.maximum(x @ WEIGHTS[0].T + BIAS, 0)
    second = first @ WEIGHTS[1].T
    return [first, second, second @ WEIGHTS[2].T]


def rows_of(report: QuantizeReport, op: str) -> list[TensorNoise]:
    return [t for t in report.tensors if t.op == op]


def real(steps: np.ndarray, q: Quantization) -> np.ndarray:
    return np.asarray((steps.astype(np.float64) - q.zero_point[0]) * q.scale[0])


def steps_of(numbers: np.ndarray, q: Quantization) -> np.ndarray:
    return np.asarray(np.clip(np.rint(numbers.astype(np.float64) / q.scale[0]) + q.zero_point[0], -128, 127))


def alone(eqn: Eqn, x: np.ndarray) -> np.ndarray:
    """What FULLY_CONNECTED makes of integers: exact sums, one rounding of f32 to even, cut off at the type's ends."""
    given, weights, bias = eqn.inputs
    assert isinstance(weights, Const)
    total = (x - quantization(given).zero_point[0]) @ weights.array.astype(np.int64).T
    total = total + (bias.array if isinstance(bias, Const) else 0)
    out = quantization(eqn.outputs[0])
    factor = np.float32(quantization(given).scale[0]) * np.array(quantization(weights).scale, np.float32)
    steps = np.rint(total.astype(np.float32) * (factor / np.float32(out.scale[0]))) + out.zero_point[0]
    low = out.zero_point[0] if eqn.params["fused_activation_function"] == "RELU" else -128
    return real(np.clip(steps, low, 127), out)


def test_the_figures_are_those_of_a_formula() -> None:
    program = program_of(dense, ROW)
    model = calibrated(program, Recipe.named("int8"), CALLS[:2])  # so that the other calls saturate
    report = measured(model.program, quantized(program, None).program, CALLS)
    assert report.calls == len(CALLS)
    assert report.unmatched == []
    found = rows_of(report, "fully_connected")
    assert [t.source for t in found] == [f"layer_{i}/MatMul (MatMul)" for i in range(3)]
    eqns = [eqn for eqn in model.program.signatures[0].graph.eqns if eqn.op is ops.fully_connected]
    wanted = [np.stack(values) for values in zip(*(floats_of(c["x0"]) for c in CALLS), strict=True)]
    x = np.stack([c["x0"] for c in CALLS])
    arriving = steps_of(x, quantization(eqns[0].inputs[0]))
    for tensor, eqn, own, before, weights in zip(found, eqns, wanted, (x, *wanted), WEIGHTS, strict=False):
        out = quantization(eqn.outputs[0])
        values = alone(eqn, arriving)
        assert tensor.snr_db == pytest.approx(snr_db(values, own), abs=1e-4)
        assert tensor.mse == pytest.approx(float(np.mean((values - own) ** 2)), rel=1e-4)
        rounded = steps_of(before, quantization(eqn.inputs[0]))
        bias = BIAS if weights is WEIGHTS[0] else 0
        exact = real(rounded, quantization(eqn.inputs[0])) @ weights.T.astype(np.float64) + bias
        exact = np.maximum(exact, 0) if weights is WEIGHTS[0] else exact
        assert tensor.own_snr_db == pytest.approx(snr_db(alone(eqn, rounded), exact), abs=1e-3)
        beyond = own / out.scale[0] + out.zero_point[0]
        assert tensor.saturated == pytest.approx(np.mean((beyond > 127.5) | (beyond < -128.5)))
        arriving = np.rint(values / out.scale[0]) + out.zero_point[0]
        assert tensor.utilisation == pytest.approx((arriving.max() - arriving.min()) / 255)
        stored = eqn.inputs[1]
        assert isinstance(stored, Const)
        scale = np.array(quantization(stored).scale, np.float32)[:, None]
        assert tensor.weights_snr_db == pytest.approx(snr_db(stored.array * scale, weights), abs=1e-3)
    assert any(t.saturated > 0 for t in found), "the test sees no saturation"


def _with_scale(program: Program, weights: np.ndarray, factor: float) -> Program:
    """The program with one tensor of weights whose scales are wrong."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.op is not ops.fully_connected or eqn.inputs[1].type.shape != weights.shape:  # type: ignore[union-attr]
            return None
        stored = eqn.inputs[1]
        assert isinstance(stored, Const)
        scale = tuple(s * factor for s in quantization(stored).scale)
        wrong = Const(stored.array, stored.name, replace(quantization(stored), scale=scale))
        changed.append(replace(eqn, inputs=(eqn.inputs[0], wrong, eqn.inputs[2])))
        return None

    changed: list[Eqn] = []
    program.with_graphs(lambda graph: rewrite(graph, visit))
    new = {eqn.outputs[0]: eqn for eqn in changed}
    return program.with_graphs(
        lambda g: replace(g, eqns=tuple(new.get(e.outputs[0], e) if e.outputs else e for e in g.eqns))
    )


def test_weights_with_a_wrong_scale_come_first() -> None:
    program = program_of(dense, ROW)
    model = calibrated(program, Recipe.named("int8"), CALLS)
    report = measured(_with_scale(model.program, WEIGHTS[1], 1.2), quantized(program, None).program, CALLS)
    assert report.ranked()[0].source == "layer_1/MatMul (MatMul)"
    assert report.ranked()[0].weights_snr_db == pytest.approx(20 * np.log10(1 / 0.2), abs=0.3)
    assert report.ranked()[1].own_snr_db > report.ranked()[0].own_snr_db + 15
    assert report.ranked("propagated")[0].source in ("layer_1/MatMul (MatMul)", "layer_2/MatMul (MatMul)")


def test_a_range_that_is_too_narrow_comes_first() -> None:
    program = program_of(dense, ROW)

    def find(program: Program, observed: Any, *others: Any) -> Statistics:
        found = calibrator(CALLS)(program, observed, *others)
        key = found.key(next(o for o in observed if o.var is program.signatures[0].graph.eqns[1].outputs[0]))
        low, high = found.records[key].extremes
        return replace(found, records={**found.records, key: Record((low / 4, high / 4), calls=1)})

    model = quantized(program, Recipe.named("int8"), calibrate=find)
    report = measured(model.program, quantized(program, None).program, CALLS)
    worst, second, *_ = report.ranked()
    assert worst.source == "layer_1/MatMul (MatMul)"
    assert worst.saturated > 0.1
    assert worst.utilisation == 1.0
    assert second.own_snr_db > worst.own_snr_db + 15


def turns(x: Any) -> Any:
    count = TensorType((), DType.i32)
    row = TensorType((2, 24), DType.f32)
    square = drawn(24, 24, scale=0.15, seed=7)
    condition = trace_graph(lambda n, h: ops.less(n, np.int32(4)), [count, row], name="turns_left")
    step = trace_graph(
        lambda n, h: (ops.add(n, np.int32(1)), ops.tanh(ops.fully_connected(h, square, None))), [count, row]
    )
    return while_([np.int32(0), x], [condition, step])[1]


def test_the_insides_of_a_loop_count_in_every_turn() -> None:
    program = program_of(turns, ROW)
    model = calibrated(program, Recipe.named("int8"), CALLS)
    report = measured(model.program, quantized(program, None).program, CALLS)
    inside = {t.op: t for t in report.tensors if len(t.path) == 3}
    assert inside.keys() >= {"fully_connected", "tanh"}
    assert report.unmatched == []
    h, square, wanted = np.stack([c["x0"] for c in CALLS]), drawn(24, 24, scale=0.15, seed=7), []
    for _ in range(4):
        h = np.tanh(h @ square.T)
        wanted.append(h)
    errors = []
    for count in range(1, 5):
        answers = np.stack(in_litert(Model(_with_turns(model.program, count)), CALLS, delegates=True))
        errors.append(np.square(answers.astype(np.float64) - wanted[count - 1]).mean())
    whole = next(t for t in report.tensors if t.op == "while")
    assert whole.mse == pytest.approx(errors[-1], rel=1e-3)
    assert inside["tanh"].mse == pytest.approx(np.mean(errors), rel=1e-3)
    power = float(np.square(np.stack(wanted)).mean())
    assert inside["tanh"].snr_db == pytest.approx(10 * np.log10(power / np.mean(errors)), abs=0.01)


def _with_turns(program: Program, count: int) -> Program:
    """The program of `turns` with another number of turns."""
    (signature,) = program.signatures
    eqns = list(signature.graph.eqns)
    (at,) = (i for i, eqn in enumerate(eqns) if eqn.op is while_)
    condition, body = eqns[at].bodies
    (less,) = condition.eqns
    limit = replace(less, inputs=(less.inputs[0], Const(np.array(count, np.int32))))
    eqns[at] = replace(eqns[at], bodies=(replace(condition, eqns=(limit,)), body))
    return Program((replace(signature, graph=replace(signature.graph, eqns=tuple(eqns))),))


def test_floats_have_no_noise_and_other_inputs_are_refused() -> None:
    program = quantized(program_of(dense, ROW), None).program
    report = measured(program, program, CALLS)
    assert {(t.snr_db, t.own_snr_db, t.saturated, t.utilisation) for t in report.tensors} == {(np.inf, np.inf, 0, None)}
    text = report.to_json()
    assert [t["snr_db"] for t in text["tensors"]] == ["inf"] * 3
    both = quantized(program_of(lambda x, y: ops.add(x, y), ROW, ROW), None).program
    with pytest.raises(JfuseError, match="takes other inputs than the float model"):
        measured(both, program, CALLS)


def test_mappings_are_used() -> None:
    """Arrays by name go to the inputs of that name, whatever their order in the quantized model is."""
    program = program_of(lambda x, y: ops.sub(x, ops.mul(y, y)), ROW, ROW)
    calls: list[Mapping[str, np.ndarray]] = [
        {"x0": drawn(2, 24, seed=s), "x1": drawn(2, 24, seed=s + 9)} for s in range(3)
    ]
    model = calibrated(program, Recipe.named("int8"), calls)
    (signature,) = model.program.signatures
    graph = signature.graph
    other = replace(signature, input_names=("x1", "x0"), graph=replace(graph, inputs=graph.inputs[::-1]))
    report = measured(Program((other,)), quantized(program, None).program, calls)
    assert min(t.snr_db for t in report.tensors) > 25
