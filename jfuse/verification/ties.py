"""Choices among equals: where two runners differ only because each took another one of values that tie.

An ARG_MAX, a TOPK, a suppression of boxes or a comparison turns differences of a rounding into other results. Two
runners of one graph agree up to such choices if the values that the choices are made of agree within the tolerance, and
if, given the one's values there, the other computes the one's results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jfuse.errors import JfuseError
from jfuse.export.flatbuffer import to_bytes
from jfuse.frontends.sources import Imported
from jfuse.ir.graph import Eqn, Graph, Program, Signature, Var
from jfuse.ir.walk import producers, substitute_graph
from jfuse.kernels import ops
from jfuse.lowering.switches import switch_of
from jfuse.passes.outputs import prepare_outputs
from jfuse.running.runner import Runner
from jfuse.verification.compare import Wrong
from jfuse.verification.inputs import Step
from jfuse.verification.measure import Measure, relative_error
from jfuse.verification.oracles import LiteRt
from jfuse.verification.subject import Arrays
from jfuse.verification.tensorflow_values import tensorflow_values

_STEPS = frozenset({"compare", "round", "mod", "cast"})  # of a real number they make one of a few
_SELECTIONS = frozenset({ops.topk_v2, ops.where, ops.unique})
Given = Mapping[Var, np.ndarray]


@dataclass(frozen=True)
class Ties:
    """Tells which differences of a lowered program are choices among equals.   source: behind the reference, if any"""

    program: Program
    source: Imported | None

    def excused(self, step: Step, wrong: Sequence[Wrong]) -> tuple[Sequence[Wrong], Sequence[str]]:
        """What of the wrong outputs of one call is no such choice, and a note on what is."""
        signature = next(s for s in self.program.signatures if s.key == step.key)
        if signature.states or signature.exposed or not any(map(chooses, signature.graph.eqns)):
            return wrong, ()
        tolerance = max(w.tolerance.value for w in wrong)
        explained = _Explained(self, signature, step, wrong, tolerance)
        left = [w for w in wrong if not explained(w)]
        tied = sorted({w.output for w in wrong if w not in left})
        note = f"{', '.join(tied)} of {step.key!r}: values that tie within the tolerance were told apart differently"
        return left, (note,) if tied else ()


@dataclass
class _Explained:
    """Whether a wrong output of a call follows from a tie; each question is answered once."""

    ties: Ties
    signature: Signature
    step: Step
    wrong: Sequence[Wrong]
    tolerance: float

    def __post_init__(self) -> None:
        self._answers: dict[str, bool] = {}

    def __call__(self, wrong: Wrong) -> bool:
        reference, runner = wrong.pair.split("/")
        on_xla = [w for w in self.wrong if w.pair.endswith("/xla")]
        if on_xla and not self._once("source", lambda: reference == "tensorflow" and self._source_and_xla()):
            return False
        return runner == "xla" or (runner == "litert" and self._once("file", self._xla_and_file))

    def _once(self, question: str, answer: Callable[[], bool]) -> bool:
        if question not in self._answers:
            try:
                self._answers[question] = answer()
            except (JfuseError, ValueError):  # the parts cannot be run by themselves
                self._answers[question] = False
        return self._answers[question]

    def _xla_and_file(self) -> bool:
        """Whether XLA, given LiteRT's values where choices are made, gives what LiteRT gives."""
        graph = self.signature.graph
        before = (v for e in graph.eqns if chooses(e) for v in _computed_floats(graph, e))
        rounded = (v for e in graph.eqns if _quantizes(e) for v in e.outputs)
        taken = list(dict.fromkeys((*before, *rounded)))
        names = tuple(f"chosen from {i}" for i in range(len(taken)))
        shown = replace(graph, outputs=(*graph.outputs, *taken))
        signature = replace(
            self.signature, graph=prepare_outputs(shown), output_names=(*self.signature.output_names, *names)
        )
        found = LiteRt(to_bytes(Program((signature,)))).run(self.step.key, self.step.inputs)
        given = {v: found[n] for v, n in zip(taken, names, strict=True)}
        told = {w.output: w.found for w in self.wrong if w.pair.endswith("/litert")}
        return self._agrees(found, told) and self._follows(given, found)

    def _source_and_xla(self) -> bool:
        """Whether XLA, given TensorFlow's values of the nodes before the choices, gives what TensorFlow gives."""
        if self.ties.source is None or self.step.key not in self.ties.source.functions:
            return False
        told = tensorflow_values(self.ties.source.functions[self.step.key], self.step.inputs)
        nodes = {name: equations[-1][1] for name, equations in told.results.items()}
        given = _before_choices(self.signature.graph, nodes)
        return self._follows(given, {w.output: w.wanted for w in self.wrong if w.pair.endswith("/xla")})

    def _follows(self, given: Given, wanted: Arrays) -> bool:
        """Whether the graph, with values given for some variables, gives nearly those values and what is wanted."""
        graph = self.signature.graph
        again = {v: Var(v.type) for v in given}
        rest = substitute_graph(replace(graph, outputs=()), again)
        outputs = tuple(again.get(a, a) if isinstance(a, Var) else a for a in graph.outputs)
        rest = Graph(graph.name, (*graph.inputs, *again.values()), rest.eqns, (*outputs, *given))
        args = [*(self.step.inputs[name] for name in self.signature.input_names), *given.values()]
        results = Runner(rest, quick=True)(args)
        computed, values = results[: len(outputs)], results[len(outputs) :]
        near = all(self._is_near(v, g) for v, g in zip(values, given.values(), strict=True))
        return near and self._agrees(dict(zip(self.signature.output_names, computed, strict=True)), wanted)

    def _is_near(self, found: np.ndarray, wanted: np.ndarray) -> bool:
        """Whether real numbers agree within the tolerance, and quantized ones to the next step."""
        if found.dtype.kind not in "iu" or found.shape != wanted.shape:
            return relative_error(found, wanted) <= self.tolerance
        return Measure.of(found, wanted).absolute <= 1

    def _agrees(self, found: Arrays, wanted: Arrays) -> bool:
        return all(relative_error(found[n], wanted[n]) <= self.tolerance for n in wanted if n in found)


def chooses(eqn: Eqn) -> bool:
    """Whether an equation, or one in its bodies, turns real numbers into one of a few answers."""
    if eqn.bodies:
        return any(chooses(e) for body in eqn.bodies for e in body.eqns)
    if not any(isinstance(a, Var) and a.type.dtype.is_float for a in eqn.inputs):
        return False
    return eqn.op in _SELECTIONS or switch_of(eqn) in _STEPS or _quantizes(eqn)


def _quantizes(eqn: Eqn) -> bool:
    """Whether an equation rounds real numbers to steps: halfway between two, runners take either."""
    operand = eqn.inputs[0] if eqn.op is ops.quantize else None
    return operand is not None and operand.type.dtype.is_float


def _computed_floats(graph: Graph, eqn: Eqn) -> Iterator[Var]:
    given = set(graph.inputs)
    return (a for a in eqn.inputs if isinstance(a, Var) and a.type.dtype.is_float and a not in given)


def _before_choices(graph: Graph, nodes: Mapping[str, tuple[np.ndarray, ...]]) -> dict[Var, np.ndarray]:
    """The last values before each choice that are those of nodes of the source."""
    by = producers(graph)
    last = {e.source.node: e for e in graph.eqns}
    found: dict[Var, np.ndarray] = {}
    seen: set[Var] = set()
    waiting = [v for e in graph.eqns if chooses(e) for v in _computed_floats(graph, e)]
    while waiting:
        var = waiting.pop()
        if var in seen:
            continue
        seen.add(var)
        eqn = by[var]
        values = nodes.get(eqn.source.node, ())
        if len(values) == len(eqn.outputs) == 1 and last[eqn.source.node] is eqn and _fits(values[0], var):
            found[var] = values[0]
        elif not chooses(eqn):
            waiting += _computed_floats(graph, eqn)
    return {v: found[v] for e in graph.eqns for v in e.outputs if v in found}


def _fits(value: np.ndarray, var: Var) -> bool:
    return value.dtype == var.type.dtype.numpy and value.ndim == var.type.rank
