"""Choices among equals: where two runners differ only because each took another one of values that tie.

An ARG_MAX, a TOPK, a suppression of boxes or a comparison turns differences of a rounding into other results. Two
runners of one graph agree up to such choices if the values that the choices are made of agree within the tolerance, and
if, given the one's values there, the other computes the one's results. So do casts of floats beyond an integer type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.base.measure import Measure, relative_error
from jfuse.frontends.imported_functions import ImportedFunctions
from jfuse.frontends.sources import Imported
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Eqn, Graph, Program, Signature, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns, producers, substitute_graph
from jfuse.lowering.rule_tools.case_distinctions import switch_of
from jfuse.proof.inputs import CallInputs
from jfuse.running.interpreter import LiteRt
from jfuse.running.runner import Runner
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes
from jfuse.verification.compare.matching import SignatureMatch
from jfuse.verification.compare.step_functions import StepFunction, by_result
from jfuse.verification.compare.tolerance import of_narrow_source, tolerance_on_the_way
from jfuse.verification.compare.vectors import same_signs, source_vectors, with_signs_of
from jfuse.verification.compare.wrong import WrongOutput
from jfuse.verification.runners.in_tensorflow import call_from
from jfuse.verification.runners.tensorflow_values import tensorflow_values
from jfuse.verification.runners.without_custom_ops import results_of_stubs
from jfuse.verification.subject import STATE, Arrays

_STEPS = frozenset({"compare", "round", "mod", "cast"})  # of a real number they make one of a few
_TIED = "ties within the tolerance were broken differently"
_BEYOND = "a CAST of floats beyond its integer type gives any integer, so these were not compared"
InnerValues = Mapping[Var, np.ndarray]


@dataclass(frozen=True)
class Ties:
    """Tells which differences of a lowered program are choices among equals.

    source: behind the reference, if any. matches: names of signatures, inputs and outputs there.
    functions: of PyTorch or jax, where these are the reference. file: the signatures of another file in LiteRT, where
    that is the reference, under our names.
    """

    program: Program
    source: Imported | None
    matches: Mapping[str, SignatureMatch] = field(default_factory=dict)
    functions: ImportedFunctions | None = None
    file: Mapping[str, Signature] = field(default_factory=dict)

    def excused(
        self, step: CallInputs, wrong: Sequence[WrongOutput], before: Sequence[CallInputs] = ()
    ) -> tuple[Sequence[WrongOutput], Sequence[str]]:
        """The wrong outputs of one call that no tie explains, and a note on those that one does.

        before: the calls before it, from the initial states; their states must be explained too.
        """
        signature = next(s for s in self.program.signatures if s.key == step.key)
        row = (*before, step) if signature.states else (step,)
        if any(s.key != step.key for s in row) or not any(map(chooses, signature.graph.eqns)):
            return wrong, ()
        tolerance = max(w.tolerance.value for w in wrong)
        on_the_way = (self._on_the_way(step.key, w.output) for w in wrong)
        explained = _TieCheck(self, signature, row, wrong, tolerance, max(tolerance, *on_the_way))
        left = [w for w in wrong if not explained(w)]
        tied = sorted({w.output for w in wrong if w not in left})
        note = f"{', '.join(tied)} of {step.key!r}: {_BEYOND if explained.is_beyond else _TIED}"
        return left, (note,) if tied else ()

    def _on_the_way(self, key: str, output: str) -> float:
        """The tolerance of the numbers before an output, which the source may round to fewer digits."""
        own = tolerance_on_the_way(self.program, key, output)
        source, matched = self.source or self.functions, self.matches.get(key)
        if source is None or matched is None:
            return own.value
        of_source = of_narrow_source(self.program, source.program, matched.key, matched.outputs.get(output, output))
        return own.value if of_source is None else max(own.value, of_source.value)


@dataclass
class _TieCheck:
    """Whether a wrong output of the last call of a row follows from ties; each question is answered once.

    tolerance: of the wrong outputs, 0 where they are integers; near: of the real numbers before them.
    """

    ties: Ties
    signature: Signature
    row: Sequence[CallInputs]
    wrong: Sequence[WrongOutput]
    tolerance: float
    near: float

    def __post_init__(self) -> None:
        self._answers: dict[str, bool] = {}
        self._steps = by_result(self.signature.graph)
        self.is_beyond = False  # whether floats are cast that their integer type does not hold

    def __call__(self, wrong: WrongOutput) -> bool:
        reference, runner = wrong.pair.split("/")
        on_xla = [w for w in self.wrong if w.pair.endswith("/xla")]
        if on_xla and not self._once("source", lambda: self._reference_and_xla(reference)):
            return False
        return runner == "xla" or (runner == "litert" and self._once("file", self._xla_and_file))

    def _once(self, question: str, answer: Callable[[], bool]) -> bool:
        if question not in self._answers:
            try:
                self._answers[question] = answer()
            except (JfuseError, ValueError, _TieMismatch):  # or the parts cannot be run by themselves
                self._answers[question] = False
        return self._answers[question]

    def _xla_and_file(self) -> bool:
        """Whether XLA reproduces LiteRT's outputs from LiteRT's values at the choices."""
        graph, outputs = self.signature.graph, len(self.signature.output_names)
        before = (v for e in graph.eqns if chooses(e) for v in _computed_floats(graph, e))
        rounded = (v for e in graph.eqns if _quantizes(e) for v in e.outputs)
        taken = list(dict.fromkeys((*before, *rounded, *self._steps, *_of_runtime(graph))))
        names = tuple(f"chosen from {i}" for i in range(len(taken)))
        shown = replace(graph, outputs=(*graph.outputs[:outputs], *taken, *graph.outputs[outputs:]))
        signature = replace(
            self.signature,
            graph=prepare_outputs(shown, states=len(self.signature.states)),
            output_names=(*self.signature.output_names, *names),
        )
        lite = LiteRt(to_bytes(Program((signature,))))
        states = self._initial(self.signature)
        for step in self.row:
            found = lite.run(step.key, step.inputs)
            results = self._following(step, states, {v: found[n] for v, n in zip(taken, names, strict=True)})
            states = _states_of(results)  # no interpreter tells its own
        stale = {self.signature.output_names[i] for i in results_of_stubs(graph) if i < outputs}  # other memory here
        at_outputs = {w.output: w.found for w in self.wrong if w.pair.endswith("/litert") and w.output not in stale}
        return self._agrees(found, at_outputs) and self._agrees(
            results, {n: found[n] for n in self.signature.output_names}
        )

    def _reference_and_xla(self, reference: str) -> bool:
        if reference in ("pytorch", "jax"):
            return self._function_and_xla(takes_any=reference == "pytorch")
        if reference == "litert":
            return self._other_file_and_xla()
        return reference == "tensorflow" and self._source_and_xla()

    def _other_file_and_xla(self) -> bool:
        """Whether ties explain LiteRT's answers to the other file, whose graph answers on XLA as this one's does."""
        theirs = self.ties.file.get(self.signature.key)
        if theirs is None:
            return False
        wrong = [replace(w, pair="xla/litert", found=w.wanted) for w in self.wrong]
        other = _TieCheck(self.ties, theirs, self.row, wrong, self.tolerance, self.near)
        states, results = other._initial(theirs), dict[str, np.ndarray]()
        for step in self.row:
            results = other._following(step, states, {})
            states = _states_of(results)
        at_outputs = {w.output: w.found for w in self.wrong if w.pair.endswith("/xla")}
        return self._agrees(results, at_outputs) and other._xla_and_file()

    def _function_and_xla(self, *, takes_any: bool) -> bool:
        """Whether XLA reproduces the source's outputs from the source's values before the choices.

        takes_any: of equal elements, where the greatest are asked for.
        """
        functions = {} if self.ties.functions is None else self.ties.functions.functions
        function, (step,) = functions.get(self.signature.key), self.row[-1:]
        values = getattr(function, "values", None)
        if function is None or values is None or self.signature.states:
            return False
        nodes = values(*(step.inputs[name] for name in function.inputs))
        before = _before_choices(self.signature.graph, nodes) | self._rounded_by(nodes)
        chosen = _chosen(self.signature.graph, nodes) if takes_any else {}
        results = self._following(step, {}, before, chosen, self._vectors(step, {}, nodes))
        return self._agrees(results, {w.output: w.wanted for w in self.wrong if w.pair.endswith("/xla")})

    def _source_and_xla(self) -> bool:
        """Whether XLA reproduces TensorFlow's outputs from TensorFlow's values before the choices.

        Each call starts from TensorFlow's states.
        """
        source, matched = self.ties.source, self.ties.matches.get(self.signature.key)
        key = self.signature.key if matched is None else matched.key
        if source is None or key not in source.functions:
            return False
        names = {} if matched is None else matched.inputs
        kept = self._initial(next(s for s in source.program.signatures if s.key == key))
        states = self._initial(self.signature)
        for step in self.row:
            inputs = {names.get(name, name): array for name, array in step.inputs.items()}
            told = tensorflow_values(source, key, inputs, kept)
            nodes = {name: equations[-1][1] for name, equations in told.results.items()}
            _, kept = call_from(source, key, inputs, kept)
            before = _before_choices(self.signature.graph, nodes) | self._rounded_by(nodes)
            results = self._following(step, states, before, vectors=self._vectors(step, states, nodes))
            states |= {name: value for name, value in kept.items() if name in states}
            if not self._agrees(results, {f"{STATE}{name}": value for name, value in kept.items()}):
                return False
        return self._agrees(results, {w.output: w.wanted for w in self.wrong if w.pair.endswith("/xla")})

    def _rounded_by(self, nodes: Mapping[str, tuple[np.ndarray, ...]]) -> dict[Var, np.ndarray]:
        """Results of the source's fake quantizations and casts to integers."""
        results = {v: nodes.get(s.of_node, ()) for v, s in self._steps.items()}
        return {v: a[0] for v, a in results.items() if len(a) == 1 and _fits(a[0], v)}

    def _initial(self, signature: Signature) -> dict[str, np.ndarray]:
        return {state.name: state.initial.array for state in signature.states}

    def _vectors(self, step: CallInputs, states: Arrays, nodes: Mapping[str, tuple[np.ndarray, ...]]) -> InnerValues:
        """The source's eigenvectors and singular vectors; raises _TieMismatch where the graph has others."""
        graph = self.signature.graph
        of_source = source_vectors(graph, nodes)
        if not of_source:
            return {}
        own = Runner(replace(graph, outputs=tuple(of_source)), quick=True)(self._arguments(step, states))
        alike = {v: s.like(o, self.near) for (v, s), o in zip(of_source.items(), own, strict=True)}
        found = {v: a for v, a in alike.items() if a is not None}
        if len(found) < len(of_source) or not same_signs(of_source, dict(zip(of_source, own, strict=True)), found):
            raise _TieMismatch
        return found

    def _arguments(self, step: CallInputs, states: Arrays) -> list[np.ndarray]:
        kept = (np.reshape(states[s.name], s.initial.array.shape) for s in self.signature.states)
        return [*(step.inputs[name] for name in self.signature.input_names), *kept]

    def _following(
        self,
        step: CallInputs,
        states: Arrays,
        before: InnerValues,
        chosen: Mapping[Eqn, Sequence[np.ndarray]] | None = None,
        vectors: InnerValues | None = None,
    ) -> dict[str, np.ndarray]:
        """The outputs and states after a call of the graph, with values given for some variables.

        chosen: results of equations that take the greatest elements; of equal ones they may take any. vectors: of
        eigenvalues, which `_vectors` has compared.
        Raises _TieMismatch where it does not itself give nearly those values.
        """
        graph, chosen, vectors = self.signature.graph, chosen or {}, vectors or {}
        # Cut the graph at the given variables: they become inputs, and their own values, computed from what is before
        # the cut, become outputs, to check that the graph itself gives nearly the given ones.
        places = {e.outputs[1]: (e.inputs[0], found[1]) for e, found in chosen.items()}
        given = {
            **before,
            **vectors,
            **{v: a for e, found in chosen.items() for v, a in zip(e.outputs, found, strict=True)},
        }
        again = {v: Var(v.type) for v in given}
        rest = substitute_graph(replace(graph, outputs=()), again)
        outputs = tuple(again.get(a, a) if isinstance(a, Var) else a for a in graph.outputs)
        elements = tuple(again.get(x, x) for x, _ in places.values() if isinstance(x, Var))
        steps = [s for v, s in self._steps.items() if v in given]
        operands = tuple(again.get(s.operand, s.operand) for s in steps)
        rest = Graph(graph.name, (*graph.inputs, *again.values()), rest.eqns, (*outputs, *given, *elements, *operands))
        results = Runner(rest, quick=True)([*self._arguments(step, states), *given.values()])
        computed, values = results[: len(outputs)], results[len(outputs) : len(outputs) + len(given)]
        # Indices, runtime values and rounded results may differ freely; they have tests of their own below.
        untold = {*places, *vectors, *_of_runtime(graph), *(s.result for s in steps)}
        rounded = (
            self._may_give(s, x, given[s.result])
            for s, x in zip(steps, results[len(results) - len(steps) :], strict=True)
        )
        near = (self._is_near(v, g) for (var, g), v in zip(given.items(), values, strict=True) if var not in untold)
        taken = (
            self._is_near(np.take_along_axis(x, at, -1), given[e.outputs[0]])
            for e, x, (_, at) in zip(chosen, results[len(outputs) + len(given) :], places.values(), strict=False)
        )
        if not (all(near) and all(taken) and all(rounded)):
            raise _TieMismatch
        names = (*self.signature.output_names, *(f"{STATE}{s.name}" for s in self.signature.states))
        return dict(zip(names, computed, strict=True))

    def _may_give(self, steps: StepFunction, operand: np.ndarray, result: np.ndarray) -> bool:
        """Whether a step function of nearly this operand has this result."""
        slack = self.near * float(np.abs(operand[np.isfinite(operand)]).max(initial=0.0))
        self.is_beyond |= bool(steps.leaves_open(operand, slack).any())
        return steps.may_give(operand, result, slack)

    def _is_near(self, found: np.ndarray, wanted: np.ndarray) -> bool:
        """Whether real numbers agree within the tolerance, and quantized ones to the next step."""
        if found.dtype.kind not in "iu" or found.shape != wanted.shape:
            return relative_error(found, wanted) <= self.near
        return Measure.of(found, wanted).absolute <= 1

    def _agrees(self, found: Arrays, wanted: Arrays) -> bool:
        scales = {w.output: w.scale for w in self.wrong}
        found = with_signs_of(wanted, found, self.signature)
        both = ((n, found[n], np.reshape(wanted[n], found[n].shape)) for n in wanted if n in found)
        return all(relative_error(f, w, scales.get(n)) <= self.tolerance for n, f, w in both)


class _TieMismatch(Exception):
    """The values that choices are made of differ beyond the tolerance."""


def _states_of(results: Arrays) -> dict[str, np.ndarray]:
    return {name.removeprefix(STATE): value for name, value in results.items() if name.startswith(STATE)}


def chooses(eqn: Eqn) -> bool:
    """Whether an equation, or one in its bodies, turns real numbers into one of a few answers."""
    if eqn.bodies:
        return any(chooses(e) for body in eqn.bodies for e in all_eqns(body) if not e.bodies)
    if not any(isinstance(a, Var) and a.type.dtype.is_float for a in eqn.inputs):
        return False
    return eqn.op.chooses or eqn.op.is_stubbed or switch_of(eqn) in _STEPS or _quantizes(eqn)


def _of_runtime(graph: Graph) -> Iterator[Var]:
    """The results of operators that the runtime computes on either side: where they choose fewer, the rest is stale."""
    return (v for e in graph.eqns if e.op.is_stubbed for v in e.outputs)


def _quantizes(eqn: Eqn) -> bool:
    """Whether an equation rounds real numbers to steps: halfway between two, runners take either."""
    operand = eqn.inputs[0] if eqn.op.scales == "into" else None
    return operand is not None and operand.type.dtype.is_float


def _computed_floats(graph: Graph, eqn: Eqn) -> Iterator[Var]:
    inputs = set(graph.inputs)
    return (a for a in eqn.inputs if isinstance(a, Var) and a.type.dtype.is_float and a not in inputs)


def _before_choices(graph: Graph, nodes: Mapping[str, tuple[np.ndarray, ...]]) -> dict[Var, np.ndarray]:
    """The last values before each choice that are those of nodes of the source."""
    by = producers(graph)
    last = {e.source.node: e for e in graph.eqns}
    values_before: dict[Var, np.ndarray] = {}
    seen: set[Var] = set()
    waiting = [v for e in graph.eqns if chooses(e) for v in _computed_floats(graph, e)]
    while waiting:
        var = waiting.pop()
        if var in seen:
            continue
        seen.add(var)
        eqn = by[var]
        values = [_in_type_of(v, var) for v in nodes.get(eqn.source.node, ())]
        if len(values) == len(eqn.outputs) == 1 and last[eqn.source.node] is eqn and _fits(values[0], var):
            values_before[var] = values[0]
        elif not chooses(eqn):
            waiting += _computed_floats(graph, eqn)
    return {v: values_before[v] for e in graph.eqns for v in e.outputs if v in values_before}


def _chosen(graph: Graph, nodes: Mapping[str, tuple[np.ndarray, ...]]) -> dict[Eqn, tuple[np.ndarray, np.ndarray]]:
    """The source's greatest elements and their places, for equations that take these: PyTorch takes any of equals."""
    choices: dict[Eqn, tuple[np.ndarray, np.ndarray]] = {}
    for eqn in graph.eqns:
        results = nodes.get(eqn.source.node, ())
        takes = eqn.op.chooses and [out.type.dtype.is_integer for out in eqn.outputs] == [False, True]
        if not takes or len(results) != 2 or not isinstance(eqn.inputs[0], Var):
            continue
        values, places = _in_type_of(results[0], eqn.outputs[0]), results[1].astype(np.int32)
        if _fits(values, eqn.outputs[0]) and _fits(places, eqn.outputs[1]):
            choices[eqn] = (values, places)
    return choices


def _in_type_of(value: np.ndarray, var: Var) -> np.ndarray:
    """A value of the source in f32 where it has 16 bits and the program does not."""
    is_narrow = value.dtype.itemsize == 2 and value.dtype.kind in "fV"
    return value.astype(np.float32) if is_narrow and var.type.dtype is DType.f32 else value


def _fits(value: np.ndarray, var: Var) -> bool:
    shape = var.type.shape
    fits = len(shape) == value.ndim and all(not is_known(d) or d == n for d, n in zip(shape, value.shape, strict=True))
    return fits and value.dtype == var.type.dtype.numpy
