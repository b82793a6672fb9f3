"""A model with the fewest operators left float for a goal, which its file reaches in LiteRT."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Signature, Var
from jfuse.ir.states import distinct
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.kernels.core.operand import namespace
from jfuse.model import Model
from jfuse.passes.quantize.forms import follows
from jfuse.quantization.data import RANDOM, CalibrationData, calibration_items
from jfuse.quantization.real_numbers.numbers import Computed, dequantized_from, quantized_as
from jfuse.quantization.real_numbers.walker import Exact, RealGraph
from jfuse.quantization.recipe import QuantizeRule, Recipe
from jfuse.quantization.statistics import is_earlier
from jfuse.running.over_samples import OverSamples, samples_at_once, samples_for_quick
from jfuse.running.runner import untraceable
from jfuse.tflite.names import equation_name
from jfuse.verification.file_answers import file_answers, litert_takes
from jfuse.verification.quantization_noise.measured import apart
from jfuse.verification.quantization_noise.pairs import Pairs, pair_graphs, run_twin
from jfuse.verification.quantization_noise.search import TRIED, Goal, Outputs, Search

_ITEMS = 32  # of the calibration data, which tell noise; a metric, as the share of right answers, takes all of them
_ROUNDS = 6  # files that are written: what is imitated differs from them by little
_LACKS_DB = 3.0  # by which a file is worse than what is imitated where that lacks a fault of it
_MOST_FILES = 64  # operators, of each of which a file is written in each step of a search by files
Lower = Callable[[Recipe, bool], Model]
"""(recipe, whether the answers are made right on average) -> the model."""


def reaching(goal: Goal, lite: Model, recipe: Recipe, data: CalibrationData, lower: Lower) -> Model:
    """The model with as few operators in floats as its goal takes; a file of it was run in LiteRT.

    lite: by the recipe as it is. lower: another one. What to leave float is looked for in an imitation; where a file
    turns out to be much worse than that, in files of each choice. Raises JfuseError where the goal is not reached, or
    the model has several signatures or states.
    """
    assert lite.unquantized is not None, "a quantized model"
    floats = lite.unquantized
    wanted = _only(floats)
    given = RANDOM if data is None or is_earlier(data) else data
    items = islice(calibration_items(floats.program, given), None if goal.metric is not None else _ITEMS)
    calls = [call.inputs for item in items for call in item.calls]
    exact = _stacked([floats.run(call) for call in calls])
    score = _measured(goal, lite, calls, exact)
    if score >= goal.least:
        lite.report.notes.append(f"{_asked(goal)}: {goal.text(score)} in LiteRT, with no operator left float for it")
        return lite
    # Biases that make up for the noise of all operators would be noise where some are left float.
    base = lower(recipe, False)
    (signature,) = distinct(base.program)
    # What was calibrated has the operators of the file, some of which the model in floats spells in others.
    (spelled,) = (wanted,) if base.statistics is None else distinct(base.statistics.program)
    simulated = Simulated(signature, replace(spelled, graph=apart(spelled.graph)), calls)
    search = Search(
        len(simulated.operators), [o.bytes for o in simulated.operators], _scores(goal, simulated, exact), len(calls)
    )
    by_files = _scores_of_files(goal, recipe, simulated.operators, calls, exact, lower)
    least, best = goal.least, score
    for _ in range(_ROUNDS):
        left = search.fewest(least)
        chosen = frozenset(range(search.count)) if left is None else left
        found = lower(_with(recipe, [simulated.operators[i] for i in chosen]), True)
        best = _measured(goal, found, calls, exact)
        if best >= goal.least:
            found.report.notes += _told(goal, best, score, chosen, simulated.operators, search)
            return found
        if left is None:
            break
        if search.known[chosen] - best > _LACKS_DB and goal.metric is None and search.count <= _MOST_FILES:
            # The file has a fault that the imitation lacks: from here on each choice is written and run.
            search, least = Search(search.count, search.costs, by_files, TRIED), goal.least
            continue
        least = search.known[chosen] + max(goal.least - best, 1e-9)  # the file is worse than what is imitated
    raise JfuseError(
        f"the quantized model does not reach its target, {_asked(goal)}",
        found=f"{goal.text(best)} with {len(chosen)} of {search.count} operators in floats, {goal.text(score)} without",
        remedy="calibration data like what is measured, a recipe with more bits, or another target",
    )


def _only(model: Model) -> Signature:
    signatures = distinct(model.program)  # Keras exports one graph under two keys
    if len(signatures) > 1 or any(s.states or s.exposed for s in signatures):
        raise JfuseError(
            "a target of quantization is for models of one signature that keep nothing between calls",
            found=f"signatures {[s.key for s in signatures]}",
            remedy="a recipe with rules of mode 'float', by what jfuse.quantize_report finds",
        )
    return signatures[0]


def _measured(goal: Goal, lite: Model, calls: Sequence[Mapping[str, np.ndarray]], exact: Outputs) -> float:
    """The score of a file in LiteRT."""
    if not litert_takes(lite.program):
        raise JfuseError("a target of quantization is measured in LiteRT, which does not take this file")
    return goal.score(_stacked(list(file_answers(lite, calls))), exact)


def _scores(goal: Goal, simulated: Simulated, exact: Outputs) -> Callable[[Sequence[frozenset[int]]], list[float]]:
    count = len(simulated.operators)

    def scores(choices: Sequence[frozenset[int]]) -> list[float]:
        left = [[i in choice for i in range(count)] for choice in choices]
        return [goal.score(found, exact) for found in simulated.outputs(left)]

    return scores


def _scores_of_files(
    goal: Goal,
    recipe: Recipe,
    operators: Sequence[Operator],
    calls: Sequence[Mapping[str, np.ndarray]],
    exact: Outputs,
    lower: Lower,
) -> Callable[[Sequence[frozenset[int]]], list[float]]:
    def scores(choices: Sequence[frozenset[int]]) -> list[float]:
        recipes = (_with(recipe, [operators[i] for i in choice]) for choice in choices)
        return [_measured(goal, lower(each, False), calls, exact) for each in recipes]

    return scores


def _stacked(found: Sequence[Outputs]) -> dict[str, np.ndarray]:
    return {name: np.stack([outputs[name] for outputs in found]) for name in found[0]}


def _with(recipe: Recipe, left: Sequence[Operator]) -> Recipe:
    """The recipe with rules that leave operators float."""
    rules = tuple(QuantizeRule("float", f"^{re.escape(o.name)}$", o.builtin) for o in left)
    return replace(recipe, rules=(*recipe.rules, *rules))


def _asked(goal: Goal) -> str:
    return f"{goal.snr_db:g} dB" if goal.metric is None else f"at most {goal.accuracy_drop:g} less of the metric"


def _told(
    goal: Goal, score: float, before: float, left: frozenset[int], operators: Sequence[Operator], search: Search
) -> list[str]:
    """Name the operators that were left float, with the score that each of them is needed for."""
    total = sum(o.count for o in operators)
    head = f"{_asked(goal)}: {goal.text(score)} in LiteRT with {sum(operators[i].count for i in left)} of {total} "
    lines = [f"{head}operators left float, {goal.text(before)} without"]
    without = search.scores([left - {i} for i in sorted(left)]) if left else []
    for i, found in zip(sorted(left), without, strict=True):
        lines.append(f"left float: {operators[i]}; in integers it would be {goal.text(found)}")
    return lines


# A quantized program imitated in floats, with a switch for each operator: rounded as its integers are, or float.


@dataclass(frozen=True)
class Operator:
    """The operators of one name in the source and one builtin, which a rule of a recipe can name.

    count: how many they are. bytes: how much larger their weights and results are in floats.
    """

    name: str
    builtin: str
    count: int = 1
    bytes: int = 0

    def __str__(self) -> str:
        return f"{self.builtin} at {self.name}"


class Simulated:
    """One signature of a quantized program beside the float one, on samples: its outputs for any choice of operators.

    operators: those that can be left float. Integers are imitated: operands and results are rounded to their steps, and
    what is between is computed in floats, so that answers differ from the runtime's by a step now and then.
    Raises JfuseError where jax cannot trace the program.
    """

    def __init__(self, quantized: Signature, floats: Signature, calls: Sequence[Mapping[str, np.ndarray]]) -> None:
        known = zip(quantized.graph.inputs, floats.graph.inputs, strict=True)
        policy = _Switched(pair_graphs(quantized.graph, floats.graph, known))
        graph = policy.graph(quantized.graph, floats.graph)
        reason = untraceable(graph)
        if reason is not None:
            raise JfuseError("the operators to be left float cannot be searched for", found=reason)
        self.operators = [Operator(*key, len(eqns), sum(map(_bytes, eqns))) for key, eqns in policy.switched.items()]
        self._names = quantized.output_names
        most = samples_at_once(graph, jax.default_backend())
        self._run = OverSamples.of_graph(graph, most=most, quick=samples_for_quick(graph))
        self._inputs = [np.stack([c[name] for c in calls]) for name in floats.input_names]

    def outputs(self, left: Sequence[Sequence[bool]]) -> list[dict[str, np.ndarray]]:
        """The outputs for each choice, calls along a new first axis.   left: bool[choices, operators], for floats"""
        chosen, calls = np.asarray(left, bool), len(self._inputs[0])
        switches = np.repeat(chosen, calls, axis=0)
        found = self._run([switches, *(np.tile(a, (len(chosen), *[1] * (a.ndim - 1))) for a in self._inputs)])
        parts = [np.split(np.asarray(array), len(chosen)) for array in found]
        return [dict(zip(self._names, arrays, strict=False)) for arrays in zip(*parts, strict=True)]


@dataclass
class _Switched(Exact):
    """Computes each operator twice, in floats and with rounded operands and results, and chooses by its switch."""

    pairs: Pairs
    switched: dict[tuple[str, str], list[Eqn]] = field(default_factory=dict)
    switches: Var = field(default_factory=lambda: Var(TensorType((symbol("operators"),), DType.bool)))

    def graph(self, quantized: Graph, floats: Graph) -> Graph:
        """The graph: which operators are left float, bool[operators], and the inputs -> the outputs."""
        real = RealGraph(self, dict(zip(quantized.inputs, floats.inputs, strict=True)))
        for eqn in quantized.eqns:
            real.add(eqn)
        outputs = tuple(o for o in map(real.value, quantized.outputs) if o is not None)
        return Graph("simulated", (self.switches, *floats.inputs), tuple(real.eqns), outputs)

    def results(self, real: RealGraph, eqn: Eqn, operands: Sequence[Atom | None]) -> Sequence[Atom]:
        twin = self.pairs.twins.get(eqn)
        if eqn.bodies and twin is None:
            raise JfuseError(
                "the operators to be left float cannot be searched for", found=f"{eqn.op.name} in integers"
            )
        exact = real.run(eqn, operands) if twin is None else run_twin(real, twin, operands)
        source = twin or eqn
        if eqn.bodies or follows(source) or not self._is_rounded(eqn):
            return exact
        rounded = real.run(eqn, [_rounded(real, value, a) for value, a in zip(operands, eqn.inputs, strict=True)])
        key = (equation_name(source), str(eqn.op.builtin))
        self.switched.setdefault(key, []).append(source)
        number = list(self.switched).index(key)
        ends = [_rounded(real, value, var) for value, var in zip(rounded, eqn.outputs, strict=True)]
        return [
            real.apply(_choosing(left.type, number), self.switches, left, end)
            for left, end in zip(exact, ends, strict=True)
            if end is not None
        ]

    def _is_rounded(self, eqn: Eqn) -> bool:
        """Whether an operand or a result is in integers, or weights come from behind a DEQUANTIZE."""
        atoms = [a for a in (*eqn.inputs, *eqn.outputs) if a is not None]
        return any(is_quantized(a.type) or a in self.pairs.constants for a in atoms)


def _rounded(real: RealGraph, value: Atom | None, like: Atom | None) -> Atom | None:
    """A value in the steps of a type."""
    if not isinstance(value, Var) or like is None or not is_quantized(like.type):
        return value
    return real.apply(dequantized_from(like.type), real.apply(quantized_as(like.type), value))


def _choosing(result: TensorType, number: int) -> Computed:
    """Switches, the float value, the rounded one -> the one that the switch of this number chooses."""

    def choose(switches: Any, left: Any, rounded: Any) -> Any:
        return namespace(switches, left, rounded).where(switches[number], left, rounded)

    return Computed("noise.choose", (result,), choose)


def _bytes(eqn: Eqn) -> int:
    """How much larger the weights and results of an equation are in floats than in bytes, for one sample."""
    weights = sum(a.array.size for a in eqn.inputs if isinstance(a, Const) and a.type.dtype.is_float)
    shapes = ([int(d) for d in v.type.shape if isinstance(d, int)] for v in eqn.outputs)
    return 3 * int(weights + sum(np.prod(shape, dtype=np.int64) for shape in shapes))
