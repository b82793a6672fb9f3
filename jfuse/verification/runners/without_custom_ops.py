"""Files with custom operators: LiteRT runs all of such a file but these, which TensorFlow computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Eqn, Graph, Program, Signature, Var
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.op import draws
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes

Values = Mapping[str, np.ndarray]


class AroundCustom:
    """A LiteRT interpreter on a program's file without its custom operators.

    Their results are inputs of it, their operands outputs, so that every other operator runs as it will.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._litert = LiteRt(to_bytes(replace(program, signatures=tuple(map(_cut, program.signatures)))))

    def run(self, key: str, inputs: Values, states: Values) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """One call: LiteRT's results by name, and those of XLA and TensorFlow, for outputs and for operands.

        states: the program's states before the call, by name.
        """
        signature = next(s for s in self._program.signatures if s.key == key)
        values = _values(signature, inputs, states)
        results = {name: values[var] for name, var in _results(signature.graph)}
        from_litert = self._litert.run(key, {**inputs, **results})
        outputs = zip(signature.output_names, signature.graph.outputs, strict=False)
        # What the runtime draws is not what XLA draws; what a custom operator draws is an input of the file.
        random = _depending(signature.graph, lambda e: e.op.code is None and draws(e))
        expected = {n: values[a] for n, a in (*outputs, *_operands(signature.graph)) if a not in random}
        return from_litert, expected


def has_custom(program: Program) -> bool:
    """Whether the file has operators that LiteRT alone cannot run."""
    return any(e.op.is_computed_here for graph in program.graphs() for e in all_eqns(graph))


def can_be_cut(program: Program) -> bool:
    """Whether no custom operator stands in a loop or branch, where its results cannot be inputs of the file."""
    return not any(
        e.op.is_computed_here
        for graph in program.graphs()
        for eqn in graph.eqns
        for body in eqn.bodies
        for e in all_eqns(body)
    )


def results_by_chance(graph: Graph) -> list[int]:
    """The positions of the results that depend on random numbers."""
    random = _depending(graph, draws)
    return [i for i, atom in enumerate(graph.outputs) if atom in random]


def results_of_stubs(graph: Graph) -> list[int]:
    """The positions of the results that depend on an operator in whose place the source computes something else."""
    dependent = _depending(graph, _has_stub)
    return [i for i, atom in enumerate(graph.outputs) if atom in dependent]


def _has_stub(eqn: Eqn) -> bool:
    return eqn.op.is_stubbed or any(e.op.is_stubbed for body in eqn.bodies for e in all_eqns(body))


def _depending(graph: Graph, is_meant: Callable[[Eqn], bool]) -> set[Atom | None]:
    """All values that depend on a selected equation."""
    dependent: set[Atom | None] = set()
    for eqn in graph.eqns:
        if is_meant(eqn) or dependent & set(eqn.inputs):
            dependent.update(eqn.outputs)
    return dependent


def _cut(signature: Signature) -> Signature:
    graph, count = signature.graph, len(signature.states)
    (results, given), (operands, taken) = _named(_results(graph)), _named(_operands(graph))
    inputs, outputs = len(graph.inputs) - count, len(graph.outputs) - count
    cut = Graph(
        graph.name,
        (*graph.inputs[:inputs], *given, *graph.inputs[inputs:]),
        tuple(eqn for eqn in graph.eqns if not eqn.op.is_computed_here),
        (*graph.outputs[:outputs], *taken, *graph.outputs[outputs:]),
    )
    return replace(
        signature,
        graph=prepare_outputs(cut, states=count),
        input_names=(*signature.input_names, *results),
        output_names=(*signature.output_names, *operands),
    )


def _named(pairs: Iterator[tuple[str, Var]]) -> tuple[tuple[str, ...], tuple[Var, ...]]:
    pair_list = list(pairs)
    return tuple(name for name, _ in pair_list), tuple(var for _, var in pair_list)


def _custom(graph: Graph) -> Iterator[tuple[str, Eqn]]:
    """The custom operators with a name for each."""
    for number, eqn in enumerate(eqn for eqn in graph.eqns if eqn.op.is_computed_here):
        yield f"{eqn.op.name} {number}", eqn


def _results(graph: Graph) -> Iterator[tuple[str, Var]]:
    for name, eqn in _custom(graph):
        yield from ((f"result {i} of {name}", var) for i, var in enumerate(eqn.outputs))


def _operands(graph: Graph) -> Iterator[tuple[str, Var]]:
    for name, eqn in _custom(graph):
        yield from ((f"operand {i} of {name}", atom) for i, atom in enumerate(eqn.inputs) if isinstance(atom, Var))


def _values(signature: Signature, inputs: Values, states: Values) -> dict[Atom, np.ndarray]:
    """The value of every variable of the main graph."""
    graph = signature.graph
    held = [np.reshape(states[s.name], s.initial.array.shape) for s in signature.states]
    args = [*(inputs[name] for name in signature.input_names), *held]
    values: dict[Atom, np.ndarray] = {var: np.asarray(arg) for var, arg in zip(graph.inputs, args, strict=True)}

    def keep(eqn: Eqn, results: Sequence[Any]) -> None:
        values.update(zip(eqn.outputs, map(np.asarray, results), strict=True))

    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        evaluate(graph, args, keep)
    return values
