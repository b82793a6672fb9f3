"""`Runner`: one graph on arrays, as one program of XLA or equation by equation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jfuse.ir.compilation import quick_jit
from jfuse.ir.evaluate import evaluate, large_constants, sizes_of, with_constants
from jfuse.ir.evaluate import run_equation as run_as_it_is
from jfuse.ir.graph import Eqn, Graph, Program, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.op import depends_on_data
from jfuse.running.in_litert import WHY, runs_whole, works_on_resources
from jfuse.running.litert_op import Hosted
from jfuse.running.partition import hosted, hosted_counts, is_changed


class Runner:
    """Runs one graph: as one jitted program, or equation by equation where jax cannot trace it. `str` says which.

    untraceable: why jax cannot trace it; None where it can. hosted: how many equations of each op LiteRT computes, as
    there is no kernel for their types.
    """

    def __init__(self, graph: Graph, quick: bool = False) -> None:
        self.graph = hosted(graph)
        self.untraceable = untraceable(self.graph)
        self.hosted: Counter[str] = hosted_counts(self.graph)
        self._quick = quick
        self._constants: Any = large_constants(self.graph)
        self._jitted = (quick_jit if quick else jax.jit)(with_constants(self.graph, self._constants))
        self._placed = False

    def __str__(self) -> str:
        return "; ".join(self.notes()) or "one program"

    def notes(self) -> Iterator[str]:
        """What is unusual about the way the graph runs."""
        if self.untraceable:
            yield f"runs equation by equation: {self.untraceable}"
        if self.hosted:
            yield _COMPUTED + _counted(self.hosted)

    def __call__(self, args: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        with jax.enable_x64(True), jax.default_matmul_precision("highest"):
            if self.untraceable:
                results = evaluate(self.graph, args)
            else:
                results = self._run(tuple(args))
        return tuple(np.asarray(r) for r in results)

    def _run(self, args: tuple[np.ndarray, ...]) -> Any:
        failures = [e.op.errors for e in all_eqns(self.graph) if isinstance(e.op, Hosted)]
        try:
            return self._jitted(self._weights(), args)
        except (jax.errors.JaxRuntimeError, ValueError) as error:  # jax raises either for a callback that fails
            for errors in filter(None, failures):
                raise errors.pop() from error
            raise

    def _weights(self) -> Any:
        """The constants that are arguments; of a program that is called often they stay on the device."""
        if not self._quick and not self._placed:
            self._constants, self._placed = jax.device_put(self._constants), True
        return self._constants


_COMPUTED = "LiteRT computes what has no kernel for its types, through a host callback: "


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts.most_common())


def running_notes(program: Program) -> Iterator[str]:
    """What is unusual about the way the signatures of a program run, as `Runner.notes` tells of each."""
    if runs_whole(program):
        yield f"LiteRT runs the whole program: {WHY}"
        return
    graphs = [hosted(graph) for graph in program.graphs()]
    counts = sum(map(hosted_counts, graphs), Counter[str]())
    if counts:
        yield _COMPUTED + _counted(counts)
    for reason in dict.fromkeys(filter(None, map(untraceable, graphs))):
        yield f"runs equation by equation: {reason}"


def run_equation(eqn: Eqn, operands: Sequence[Any], env: Mapping[Var, Any]) -> tuple[Any, ...]:
    """As `ir.evaluate.run_equation`, for any equation; its constants are those that stand in it."""
    if not is_changed(eqn):
        return run_as_it_is(eqn, operands, env)
    given = {atom: value for atom, value in zip(eqn.inputs, operands, strict=True) if isinstance(atom, Var)}
    with sizes_of(env):
        return evaluate(hosted(Graph("one", tuple(given), (eqn,), eqn.outputs), singly=True), list(given.values()))


def untraceable(graph: Graph) -> str | None:
    """Why jax cannot trace the graph, as `hosted` gave it, as one program; None where it can."""
    if works_on_resources(graph):
        return WHY
    for eqn in all_eqns(graph):
        if eqn.op.tf_name is not None or eqn.op.code is not None:
            return f"{eqn.op.name} is computed by TensorFlow ({eqn.source})"
        if depends_on_data(eqn) or (isinstance(eqn.op, Hosted) and "shapes" not in eqn.params):
            return f"the result size of {eqn.op.name} depends on data ({eqn.source})"
        if any(a is not None and a.type.dtype is DType.string for a in (*eqn.inputs, *eqn.outputs)):
            return f"{eqn.op.name} works on strings ({eqn.source})"
    return None
