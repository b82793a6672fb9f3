"""Where two forms of a model part: the first equation whose value differs from the same place in the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np

from jfuse.errors import JfuseError
from jfuse.frontends.sources import Imported
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Eqn, Program, Signature
from jfuse.ir.text import format_eqn
from jfuse.verification.measure import relative_error
from jfuse.verification.oracles import LiteRt
from jfuse.verification.oracles_tensorflow import tensorflow_nodes

Values = Mapping[str, np.ndarray]
"""The value of each node of the source, by its name."""


class Runnable(Protocol):
    """What `first_difference` looks into."""

    program: Program
    imported: Imported | None


@dataclass(frozen=True)
class Call:
    """One call of a signature: its inputs, the states before it by name, and all calls before it (key and inputs)."""

    key: str
    inputs: Values
    states: Values = field(default_factory=dict)
    before: tuple[tuple[str, Values], ...] = ()


@dataclass(frozen=True)
class Place:
    """The first equation that differs: its source, its text, and by how much."""

    place: str
    text: str
    error: float


def first_difference(
    lite: Runnable,
    reference: Runnable,
    call: Call,
    pair: str,
    data: bytes,
    tolerance: float,
) -> Place | None:
    """The first equation of the lowered graph that differs, or None where no single equation can be named.

    call: the one that failed. pair: the comparison that failed. For LiteRT each operator's result is compared with
    XLA's; else each equation's with TensorFlow's value of the node that it came from, first as imported, then as
    lowered.
    """
    lowered = _signature(lite.program, call.key)
    if pair.endswith("/litert"):
        found = _against_litert(lowered, call, data, tolerance)
        if found is not None:
            return found
    imported = _signature(reference.program, call.key)
    if not {s.name for s in imported.states} <= call.states.keys() or lowered.exposed:
        return None  # the two do not keep the same
    if reference.imported is None or imported.states:  # TensorFlow does not tell what its variables held on the way
        return _against(lowered, call, _values(imported, call), tolerance)
    wanted = tensorflow_nodes(reference.imported.functions[call.key], call.inputs)
    return _against(imported, call, wanted, tolerance) or _against(
        lowered, call, {**wanted, **_values(imported, call)}, tolerance
    )


def _signature(program: Program, key: str) -> Signature:
    return next(s for s in program.signatures if s.key == key)


def _results(signature: Signature, call: Call) -> list[tuple[Eqn, tuple[Any, ...]]]:
    """Every equation of the main graph with its results, one by one on XLA, up to one that cannot run."""
    seen: list[tuple[Eqn, tuple[Any, ...]]] = []
    states = [np.reshape(call.states[s.name], s.initial.array.shape) for s in signature.states]
    args = [*(call.inputs[name] for name in signature.input_names), *states]
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        try:
            evaluate(signature.graph, args, lambda eqn, results: seen.append((eqn, results)))
        except JfuseError:  # an opaque op: what comes after it cannot be compared
            pass
    return seen


def _values(signature: Signature, call: Call) -> Values:
    # A node may have become several equations; the last of them holds its result.
    return {eqn.source.node: np.asarray(results[0]) for eqn, results in _results(signature, call) if eqn.source.node}


def _against(signature: Signature, call: Call, wanted: Values, tolerance: float) -> Place | None:
    last = {eqn.source.node: eqn for eqn in signature.graph.eqns}
    for eqn, results in _results(signature, call):
        reference = wanted.get(eqn.source.node)
        if reference is None or last[eqn.source.node] is not eqn or reference.shape != np.shape(results[0]):
            continue
        error = relative_error(np.asarray(results[0]), reference)
        if error > tolerance:
            return _place(eqn, error)
    return None


def _against_litert(signature: Signature, call: Call, data: bytes, tolerance: float) -> Place | None:
    interpreter = LiteRt(data, preserve_all=True)
    for key, inputs in call.before if signature.states else ():
        interpreter.run(key, inputs)
    produced = interpreter.operator_results(signature.key, call.inputs)
    for (eqn, results), arrays in zip(_results(signature, call), produced, strict=True):
        for result, array in zip(results, arrays, strict=False):
            error = relative_error(array, np.asarray(result))
            if error > tolerance:
                return _place(eqn, error)
    return None


def _place(eqn: Eqn, error: float) -> Place:
    return Place(str(eqn.source) or eqn.op.name, format_eqn(eqn), error)
