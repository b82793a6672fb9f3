"""`target=` of `jfuse.quantize`: what spoils a file is left float, no more than that, as measured in LiteRT."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Source
from jfuse.ir.trace import at_source
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.quantization.recipe import QuantizeRule, Recipe
from jfuse.verification.quantization_noise.reached import Simulated
from jfuse.verification.quantization_noise.search import Goal, Search
from tests.passes.quantize.models import drawn, in_litert, program_of, snr_db

ROW = TensorType((1, 16), DType.f32)
COUNT = 4


def _weights(outliers: tuple[int, ...]) -> list[np.ndarray]:
    """Of four layers; those named have a large weight in each row for an input that is always 0."""
    found = []
    for i in range(COUNT):
        weights = drawn(16, 16, scale=0.25, seed=20 + i)
        weights[:, 0] = 25.0 if i in outliers else 0.0
        weights[0] = 0.0
        found.append(weights)
    return found


def _model(outliers: tuple[int, ...]) -> Model:
    def net(x: Any) -> Any:
        for i, weights in enumerate(_weights(outliers)):
            with at_source(Source(f"layer_{i}/MatMul", "MatMul")):
                x = ops.fully_connected(x, weights, None)
        return x

    return Model(program_of(net, ROW))


def _calls() -> list[Mapping[str, np.ndarray]]:
    calls: list[Mapping[str, np.ndarray]] = [{"x0": drawn(1, 16, seed=seed)} for seed in range(12)]
    for call in calls:
        call["x0"][:, 0] = 0
    return calls


CALLS = _calls()


def _floats(model: Model) -> set[str]:
    """The layers that compute in floats."""
    (graph,) = model.program.graphs()
    products = [eqn for eqn in graph.eqns if eqn.op is ops.fully_connected]
    return {eqn.source.node for eqn in products if eqn.outputs[0].type.quantization is None}


def _snr(model: Model, outliers: tuple[int, ...]) -> float:
    wanted = np.stack([c["x0"] for c in CALLS])
    for weights in _weights(outliers):
        wanted = wanted @ weights.T
    return snr_db(np.stack(in_litert(model, CALLS, delegates=True)), wanted)


def test_the_culprit_is_left_float() -> None:
    model = jfuse.quantize(_model((2,)), "int8", CALLS, target={"snr_db": 30}, verify=False)
    assert _floats(model) == {"layer_2/MatMul"}
    assert _snr(model, (2,)) >= 30
    first, second = model.report.notes[-2:]
    assert "30 dB" in first
    assert "with 1 of 4 operators left float" in first
    assert second.startswith("left float: FULLY_CONNECTED at layer_2/MatMul")


def test_a_fault_that_the_imitation_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are measured, one for each operator, where what is imitated says that all is well."""
    outputs = Simulated.outputs

    def without_faults(self: Simulated, left: Any) -> Any:
        return outputs(self, [[True] * len(choice) for choice in left])

    monkeypatch.setattr(Simulated, "outputs", without_faults)
    model = jfuse.quantize(_model((2,)), "int8", CALLS, target={"snr_db": 30}, verify=False)
    assert _floats(model) == {"layer_2/MatMul"}
    assert _snr(model, (2,)) >= 30


def test_the_data_calibrate_once() -> None:
    """Files with other operators in floats have their ranges from the first calibration, as from one of their own."""
    read: list[int] = []

    def calls() -> Any:
        read.append(0)
        for call in CALLS:
            read[-1] += 1
            yield call

    found = jfuse.quantize(_model((1, 3)), "int8", calls, target={"snr_db": 30}, verify=False)
    left = tuple(QuantizeRule("float", f"^{name}$", "FULLY_CONNECTED") for name in sorted(_floats(found)))
    assert left
    assert sum(read) == 4 * len(CALLS)  # for the ranges, to measure files on, and for the optional steps of two files
    recipe = Recipe((*Recipe.named("int8").rules, *left))
    assert found.to_bytes() == jfuse.quantize(_model((1, 3)), recipe, CALLS, verify=False).to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("outliers", "target"), [((1, 3), 30.0), ((), 41.0), ((0,), 20.0), ((0, 1, 2), 25.0)])
def test_no_fewer_would_do(outliers: tuple[int, ...], target: float) -> None:
    """Against all sixteen files."""
    model = _model(outliers)
    found = jfuse.quantize(model, "int8", CALLS, target={"snr_db": target}, verify=False)
    assert _snr(found, outliers) >= target
    for number in range(len(_floats(found))):
        for left in combinations(range(COUNT), number):
            rules = tuple(QuantizeRule("float", f"layer_{i}/") for i in left)
            recipe = Recipe((*Recipe.named("int8").rules, *rules))
            assert _snr(jfuse.quantize(model, recipe, CALLS, verify=False), outliers) < target, left


def test_a_metric_of_ones_own() -> None:
    """The share of calls whose greatest output is that of the float model."""
    wanted = np.stack([c["x0"] for c in CALLS])
    for weights in _weights((1,)):
        wanted = wanted @ weights.T

    def accuracy(outputs: Mapping[str, np.ndarray]) -> float:
        return float(np.mean(outputs["y0"].argmax(-1) == wanted.argmax(-1)))

    plain = jfuse.quantize(_model((1,)), "int8", CALLS, verify=False)
    assert accuracy({"y0": np.stack(in_litert(plain, CALLS, delegates=True))}) < 0.99
    model = jfuse.quantize(
        _model((1,)), "int8", CALLS, target={"accuracy_drop": 0.01, "metric": accuracy}, verify=False
    )
    assert "layer_1/MatMul" in _floats(model)
    assert accuracy({"y0": np.stack(in_litert(model, CALLS, delegates=True))}) >= 0.99


def test_a_target_that_is_reached_leaves_nothing_float() -> None:
    model = jfuse.quantize(_model(()), "int8", CALLS, target={"snr_db": 15}, verify=False)
    assert _floats(model) == set()
    assert "no operator left float" in model.report.notes[-1]


@pytest.mark.parametrize(
    "target", [{}, {"snr": 3}, {"snr_db": "high"}, {"snr_db": np.nan}, {"accuracy_drop": 0.1}, {"snr_db": True}]
)
def test_other_targets_are_refused(target: dict[str, Any]) -> None:
    with pytest.raises(JfuseError, match="a target of quantization"):
        Goal.of(target)


def test_many_operators_are_searched_step_by_step() -> None:
    """Beyond some hundreds of choices: noise that adds up, of which three operators make nearly all."""
    noise = np.ones(60)
    noise[[7, 21, 40]] = [900.0, 500.0, 700.0]
    runs: list[int] = []

    def scores(choices: Any) -> list[float]:
        runs.append(len(choices))
        return [-float(noise[[i not in c for i in range(60)]].sum()) for c in choices]

    assert Search(60, [1] * 60, scores, 32).fewest(-60.0) == frozenset({7, 21, 40})
    assert sum(runs) < 400
    assert Search(60, [1] * 60, scores, 32).fewest(1.0) is None
