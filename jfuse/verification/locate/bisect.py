"""Bisects two forms of a model that differ: finds the equation that errs by itself, given correct operands."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

import numpy as np

from jfuse.base.errors import JfuseError, VerifyFailed
from jfuse.base.measure import Measure
from jfuse.frontends.sources import Imported
from jfuse.ir.graph import Atom, Graph, Program, Signature, State, Var
from jfuse.records.verification import EquationError
from jfuse.running.partition import with_delegates
from jfuse.running.worker import Refused
from jfuse.tflite.read.file import load_tflite
from jfuse.verification.locate.culprit import Culprit, blamed
from jfuse.verification.locate.delegated import DELEGATE, DelegateCall
from jfuse.verification.locate.file_values import FileRun, OtherFile, RunValues
from jfuse.verification.locate.local_errors import LocalStep, Walk, is_same, value_of
from jfuse.verification.locate.named_values import ByName, recorded
from jfuse.verification.locate.quantization_mismatch import Scales, requantized, scales_by_name
from jfuse.verification.locate.report_error import equation_error
from jfuse.verification.runners.in_tensorflow import call_from
from jfuse.verification.runners.node_values import Nodes, Value
from jfuse.verification.runners.tensorflow_values import tensorflow_values
from jfuse.verification.subject import STATE

_LOGGER = logging.getLogger("jfuse")
Arrays = Mapping[str, np.ndarray]
"""Arrays by the name of an input or state."""


class BisectedModel(Protocol):
    """A model that bisection can run: its program, and the source that it was imported from."""

    program: Program
    imported: Imported | None


@dataclass(frozen=True)
class FailedCall:
    """One call of a signature: its inputs, the states before it by name, and all calls before it (key and inputs)."""

    key: str
    inputs: Arrays
    states: Arrays = field(default_factory=dict)
    before: tuple[tuple[str, Arrays], ...] = ()


def first_difference(
    lite: BisectedModel, reference: BisectedModel, call: FailedCall, pair: str, data: bytes | None
) -> EquationError | None:
    """The equation that errs, in a call whose outputs differ; None if none has an error of its own.

    pair: the comparison that failed. For LiteRT every operator is compared with XLA's equation. Else, and where these
    agree, the reference's equations are compared with TensorFlow's nodes, then the lowered ones with both. Where all
    that agrees LiteRT's operators are run with its delegate, which takes no part in the first comparison.
    """
    try:
        found = in_file(lite.program, call, data) if pair.endswith("/litert") and data is not None else None
        found = found or against_source(lite, reference, call)
        return found or (in_delegate(lite.program, call, data) if pair.endswith("/litert") and data else None)
    except Exception as error:  # what differs is to be told even where the search meets what it cannot run
        _LOGGER.warning("the equation that differs was not found: %s: %s", type(error).__name__, error)
        return None


def in_file(program: Program, call: FailedCall, data: bytes) -> EquationError | None:
    """The equation on which LiteRT and XLA differ, or the state that LiteRT loses, in a row of calls."""
    try:
        run = FileRun(data)
        left: dict[str, Value] = {}
        for number, (key, inputs) in enumerate((*call.before, (call.key, call.inputs))):
            signature = signature_of(program, key)
            operands, values = run.call(signature, inputs)
            error = _wrong_state(signature, operands, left, number) or _in_call(
                signature, inputs, operands, values, number
            )
            if error is not None:
                return error
            left |= _left(signature, operands, values)
    except OtherFile:
        return _of_other_file(program, call, data)
    except (VerifyFailed, Refused):  # LiteRT does not run the file without delegates
        pass
    return None


def in_delegate(program: Program, call: FailedCall, data: bytes) -> EquationError | None:
    """The equation on which LiteRT with its default delegate differs from XLA."""
    signature = signature_of(program, call.key)
    if not with_delegates(program):
        return None
    others = {s.key: s for s in program.signatures}
    culprit = DelegateCall(data, signature, _args(signature, call), call.inputs, call.before, others).blamed()
    if culprit is None:
        return None
    error = _error_of(culprit[0], call.key, "xla/litert", len(call.before))
    return replace(error, delegate=DELEGATE, together=culprit[1])


def _of_other_file(program: Program, call: FailedCall, data: bytes) -> EquationError | None:
    """The equation of a file that errs on XLA, where the file holds another graph than the program."""
    try:
        loaded = load_tflite(data)
    except JfuseError:
        return None
    match = next((s for s in loaded.signatures if s.key == call.key), None)
    if match is None or not {s.name for s in match.states} <= call.states.keys():
        return None
    return between(match, signature_of(program, call.key), call)


def _in_call(
    signature: Signature, inputs: Arrays, given: Sequence[Value], values: RunValues, number: int
) -> EquationError | None:
    kept = zip(signature.states, _last(given, signature), strict=True)
    states = [s.initial.array if v is None else v for s, v in kept]
    args = [*(np.asarray(inputs[name]) for name in signature.input_names), *states]
    found = blamed(Walk(signature.graph, args, given, values).run())
    if found is not None and found.first is not None and not (number and states):
        # What lies between was overwritten since: it is there before the equation runs.
        known = {**values.of, **values.run.before(signature, inputs, found.path[0])}
        found = blamed(Walk(signature.graph, args, given, replace(values, of=known)).run()) or found
    return (
        None if found is None else _error_of(found, signature.key, "xla/litert", number, values.run.scales(signature))
    )


def _left(signature: Signature, given: Sequence[Value], values: RunValues) -> dict[str, Value]:
    """States after the call as LiteRT computed them, by name."""
    env = {**dict(zip(signature.graph.inputs, given, strict=True)), **values.of}
    results = signature.graph.outputs[len(signature.graph.outputs) - len(signature.states) :]
    return {s.name: value_of(atom, env) for s, atom in zip(signature.states, results, strict=True)}


def _last(given: Sequence[Value], signature: Signature) -> Sequence[Value]:
    return given[len(given) - len(signature.states) :]


def _wrong_state(
    signature: Signature, given: Sequence[Value], left: Mapping[str, Value], number: int
) -> EquationError | None:
    """The state that a call starts from although the one before it left something else there."""
    for state, value in zip(signature.states, _last(given, signature), strict=True):
        wanted = left.get(state.name, state.initial.array)
        if value is None or wanted is None or is_same(value, np.reshape(wanted, value.shape)):
            continue
        measure = Measure.of(value, np.reshape(wanted, value.shape))
        return _state_error(signature, state, measure, "xla/litert", number)
    return None


def _state_error(signature: Signature, state: State, measure: Measure, pair: str, number: int = 0) -> EquationError:
    """A state that is wrong although no equation is, at the first equation that reads it."""
    graph = signature.graph
    var = graph.inputs[len(signature.input_names) + signature.states.index(state)]
    reader = next((n for n, e in enumerate(graph.eqns) if var in e.inputs), 0)
    eqn = graph.eqns[reader]
    unknown: tuple[Value, ...] = (None,) * len(eqn.inputs)
    step = LocalStep(reader, eqn, unknown, (), (), (), frozenset())
    error = equation_error(signature.key, step, (reader,), pair)
    return replace(error, measure=measure, state=state.name, call=number)


def against_source(lite: BisectedModel, reference: BisectedModel, call: FailedCall) -> EquationError | None:
    """The equation on which XLA differs from the source: first as imported, then as lowered.

    Where the source is no TensorFlow function, the reference's graph is the source.
    """
    lowered, imported = (signature_of(m.program, call.key) for m in (lite, reference))
    call = _from_the_source(call, lowered, imported)
    if not {s.name for s in imported.states} <= call.states.keys():
        return None  # the two do not keep the same
    nodes, outputs = Nodes(), dict[str, np.ndarray]()
    if reference.imported is not None:
        states = {s.name: _held(s, call) for s in imported.states}
        nodes = tensorflow_values(reference.imported, call.key, call.inputs, states)
        outputs, after = call_from(reference.imported, call.key, call.inputs, states)
        outputs |= {f"{STATE}{name}": value for name, value in after.items()}
        error = parting(imported, call, nodes, outputs, "tensorflow/xla")
        if error is not None:
            return error
    return _between(lowered, imported, call, nodes, outputs, "tensorflow/xla" if outputs else "reference/xla")


def _from_the_source(call: FailedCall, lowered: Signature, imported: Signature) -> FailedCall:
    """The call with the states of the source: where these are inputs, a comparison with it gives them as they start."""
    initial_states = {s.name: s.initial.array for s in imported.states} if lowered.exposed else {}
    return replace(call, states={**initial_states, **call.states})


def _held(state: State, call: FailedCall) -> np.ndarray:
    return np.reshape(call.states[state.name], state.initial.array.shape)


def between(found: Signature, wanted: Signature, call: FailedCall) -> EquationError | None:
    """The equation of one program on XLA that errs, against another program for the same: two files, for one.

    Values are matched by the names of nodes or tensors, else by being equal. Where that leaves gaps the answer is a run
    of equations (`EquationError.first`). Both take the same inputs; states go by their names.
    """
    return _between(found, wanted, call, Nodes(), {}, "reference/xla")


def _between(
    found: Signature, wanted: Signature, call: FailedCall, nodes: Nodes, outputs: Arrays, pair: str
) -> EquationError | None:
    other, results = recorded(wanted.graph, _args(wanted, call))
    names = (*wanted.output_names, *(f"{STATE}{s.name}" for s in wanted.states))
    computed = {name: value for name, value in zip(names, results, strict=True) if value is not None}
    merged = replace(other, results={**nodes.results, **other.results})
    scales = scales_by_name(found.graph, wanted.graph)
    return parting(found, call, merged, {**computed, **outputs}, pair, scales)


def parting(
    signature: Signature,
    call: FailedCall,
    nodes: Nodes,
    outputs: Arrays,
    pair: str,
    scales: Scales = MappingProxyType({}),
) -> EquationError | None:
    """The equation of a graph on XLA that errs, against values by node and the outputs and states by name.

    scales: how the other side quantizes the results of equations.
    """
    graph = signature.graph
    names = (*signature.output_names, *(f"{STATE}{s.name}" for s in signature.states))
    atoms = {n: a for n, a in zip(names, graph.outputs, strict=True) if n in outputs and _is_made(graph, a)}
    known = {a: np.reshape(outputs[n], _shape(a, outputs[n])) for n, a in atoms.items() if isinstance(a, Var)}
    args = _args(signature, call)
    walk = Walk(graph, args, args, ByName(graph, nodes, known)).run()
    culprit = blamed(walk)
    if culprit is not None:
        return _error_of(culprit, signature.key, pair, scales=scales)
    for state in signature.states:  # one that is not written
        name = f"{STATE}{state.name}"
        kept = value_of(graph.outputs[names.index(name)], walk.straight)
        if name in outputs and name not in atoms and kept is not None:
            wanted = np.reshape(outputs[name], kept.shape)
            if not is_same(kept, wanted):
                return _state_error(signature, state, Measure.of(kept, wanted), pair)
    return None


def _is_made(graph: Graph, atom: Atom) -> bool:
    return isinstance(atom, Var) and atom not in graph.inputs


def _shape(atom: Var, value: np.ndarray) -> tuple[int, ...]:
    """The shape of a value as the graph has it: a file's states are no scalars."""
    return tuple(int(d) for d in atom.shape) if atom.type.is_static and atom.type.size == value.size else value.shape


def _args(signature: Signature, call: FailedCall) -> list[np.ndarray]:
    states = (_held(s, call) for s in signature.states)
    return [*(np.asarray(call.inputs[name]) for name in signature.input_names), *states]


def signature_of(program: Program, key: str) -> Signature:
    """The program's signature with that key, which it has."""
    return next(s for s in program.signatures if s.key == key)


def _error_of(
    found: Culprit, key: str, pair: str, call: int = 0, scales: Scales = MappingProxyType({})
) -> EquationError:
    graph = found.walk.graph
    odd = requantized(graph, found.step.number, scales) if len(found.path) == 1 else None
    if odd is not None:
        number, quantization = odd
        error = equation_error(key, found.walk.steps[number], (number,), pair)
        return replace(error, call=call, scale=str(quantization or "no scale"))
    first = "" if found.first is None else str(graph.eqns[found.first].source) or graph.eqns[found.first].op.name
    error = equation_error(key, found.step, found.path, pair, steps=found.steps, first=first)
    return replace(error, call=call)


def equation_errors(
    lite: BisectedModel, reference: BisectedModel, call: FailedCall, data: bytes | None
) -> list[EquationError]:
    """The errors along the main graph: every equation on XLA against LiteRT, and against the source if it has values.

    One run of each. `measure` has the accumulated error, `own` that of the equation on the other side's operands.
    """
    errors: list[EquationError] = []
    lowered, imported = (signature_of(m.program, call.key) for m in (lite, reference))
    if data is not None:
        try:
            run = FileRun(data)
            for key, inputs in call.before:
                run.call(signature_of(lite.program, key), inputs)
            given, values = run.call(lowered, call.inputs)
            args = _args(lowered, call)
            errors += _profile(Walk(lowered.graph, args, given, values).run(), call.key, "xla/litert")
        except (OtherFile, VerifyFailed, Refused):  # a file of its own, or one that LiteRT does not run as it is
            pass
    call = _from_the_source(call, lowered, imported)
    if {s.name for s in imported.states} <= call.states.keys():
        args = _args(lowered, call)
        known, _ = recorded(imported.graph, _args(imported, call))
        pair = "reference/xla"
        if reference.imported is not None:
            kept = {s.name: _held(s, call) for s in imported.states}
            # What TensorFlow does not tell is unknown: the imported graph on XLA would answer as the lowered one does.
            nodes = tensorflow_values(reference.imported, call.key, call.inputs, kept)
            known, pair = replace(nodes, constants=known.constants), "tensorflow/xla"
        errors += _profile(Walk(lowered.graph, args, args, ByName(lowered.graph, known, {})).run(), call.key, pair)
    return errors


def _profile(walk: Walk, key: str, pair: str) -> list[EquationError]:
    return [equation_error(key, step, (step.number,), pair) for step in walk.steps if step.own is not None]
