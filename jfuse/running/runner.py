"""`Runner`: one graph on arrays, as one program of XLA or equation by equation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.base.settings import own_settings
from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import is_known
from jfuse.ir.evaluate import evaluate, large_constants, sizes_of, with_constants
from jfuse.ir.evaluate import run_equation as run_as_it_is
from jfuse.ir.graph import Eqn, Graph, Program, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns, nesting, shares_bodies
from jfuse.kernels.core.deadline import Deadline, until
from jfuse.kernels.core.op import depends_on_data
from jfuse.running.in_litert import WHY, runs_whole, works_on_resources
from jfuse.running.litert_op import Hosted
from jfuse.running.partition import Integers, hosted, hosted_counts, is_changed
from jfuse.running.waiting import waited_for

_LONG_S = 600.0  # for one call of a file on XLA, where its limits name no other time
_DEEPEST = 40  # levels of bodies: jax recurs through some thirty frames for each


class Runner:
    """Runs one graph: as one jitted program, or equation by equation where jax cannot trace it. `str` says which.

    untraceable: why jax cannot trace it; None where it can. hosted: how many equations of each op LiteRT computes, as
    there is no kernel for their types. limits: of a graph that was read from a file; None for others. integers:
    as `hosted` has them.
    """

    def __init__(
        self, graph: Graph, quick: bool = False, limits: Limits | None = None, integers: Integers = "own"
    ) -> None:
        self.graph = hosted(graph, limits=limits or DEFAULT_LIMITS, integers=integers)
        self.untraceable = untraceable(self.graph, limits or DEFAULT_LIMITS)
        self.hosted: Counter[str] = hosted_counts(self.graph)
        self._quick = quick
        self._constants: Any = large_constants(self.graph)
        self._jitted = (quick_jit if quick else jax.jit)(with_constants(self.graph, self._constants))
        self._placed = False
        self._deadline = None
        if limits is not None:
            _need_memory(self.graph, limits)
            if any(eqn.op.name == "while" for eqn in all_eqns(self.graph)):
                self._deadline = Deadline(_LONG_S if limits.seconds is None else limits.seconds)

    def __str__(self) -> str:
        return "; ".join(self.notes()) or "one program"

    def notes(self) -> Iterator[str]:
        """Describe how the graph's run differs from one XLA program."""
        if self.untraceable:
            yield f"runs equation by equation: {self.untraceable}"
        if self.hosted:
            yield _COMPUTED + _counted(self.hosted)

    def __call__(self, args: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        if self._deadline is None:
            return self._arrays(args)
        self._deadline.start()
        end = self._deadline.end
        with until(self._deadline):
            # XLA would wait with Ctrl-C until it is done.
            results = self._arrays(args) if self.untraceable else waited_for(lambda: self._arrays(args), end)
        self._deadline.check()
        return results

    def _arrays(self, args: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        with own_settings(), jax.enable_x64(True), jax.default_matmul_precision("highest"):
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


def _need_memory(graph: Graph, limits: Limits) -> None:
    """Raise JfuseError where one result alone is larger than the limit."""
    for eqn in all_eqns(graph):
        for var in eqn.outputs:
            size = prod(int(d) for d in var.type.shape if is_known(d)) * var.type.dtype.numpy.itemsize
            if size > limits.memory_bytes:
                raise JfuseError(
                    "a result of the model needs more memory than it may take",
                    where=str(eqn.source) or None,
                    expected=f"at most {limits.memory_bytes:,} bytes",
                    found=f"{size:,} bytes",
                    remedy="limits=jfuse.Limits(memory_bytes=…) for jfuse.load",
                    context=str(eqn),
                )


_COMPUTED = "LiteRT computes what has no kernel for its types, through a host callback: "


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts.most_common())


def running_notes(program: Program, integers: Integers = "own") -> Iterator[str]:
    """Describe how the runs of a program's signatures differ from one XLA program, as `Runner.notes` does for each."""
    if runs_whole(program):
        yield f"LiteRT runs the whole program: {WHY}"
        return
    graphs = [hosted(graph, integers=integers) for graph in program.graphs()]
    counts = sum(map(hosted_counts, graphs), Counter[str]())
    if counts:
        yield _COMPUTED + _counted(counts)
    for reason in dict.fromkeys(filter(None, map(untraceable, graphs))):
        yield f"runs equation by equation: {reason}"


_ON_DEFAULT_PATH: ContextVar[bool] = ContextVar("jfuse_on_default_path", default=False)


@contextmanager
def on_default_path() -> Iterator[None]:
    """Within the `with`, `run_equation` rounds quantized integers as LiteRT does with its default delegate."""
    token = _ON_DEFAULT_PATH.set(True)
    try:
        yield
    finally:
        _ON_DEFAULT_PATH.reset(token)


def run_equation(eqn: Eqn, operands: Sequence[Any], env: Mapping[Var, Any]) -> tuple[Any, ...]:
    """As `ir.evaluate.run_equation`, for any equation; its constants are those that stand in it.

    LiteRT computes quantized integers, with the operators' own kernels; within `on_default_path` integer bodies do.
    """
    if not is_changed(eqn):
        return run_as_it_is(eqn, operands, env)
    operand_of = {atom: value for atom, value in zip(eqn.inputs, operands, strict=True) if isinstance(atom, Var)}
    with sizes_of(env):
        graph = Graph("one", tuple(operand_of), (eqn,), eqn.outputs)
        one = hosted(graph, singly=True, integers="xnnpack" if _ON_DEFAULT_PATH.get() else None)
        return evaluate(one, list(operand_of.values()))


def untraceable(graph: Graph, limits: Limits = DEFAULT_LIMITS) -> str | None:
    """Why jax cannot trace the graph, as `hosted` gave it, as one program; None where it can."""
    if works_on_resources(graph):
        return WHY
    if shares_bodies(graph, limits.expanded):
        return "its branches share bodies, which XLA would copy for each path to them"
    if nesting(graph) > _DEEPEST:
        return f"its loops and branches are nested more than {_DEEPEST} deep"
    for eqn in all_eqns(graph):
        if eqn.op.tf_name is not None or eqn.op.code is not None:
            return f"{eqn.op.name} is computed by TensorFlow ({eqn.source})"
        if depends_on_data(eqn) or (isinstance(eqn.op, Hosted) and "shapes" not in eqn.params):
            return f"the result size of {eqn.op.name} depends on data ({eqn.source})"
        if any(a is not None and a.type.dtype is DType.string for a in (*eqn.inputs, *eqn.outputs)):
            return f"{eqn.op.name} works on strings ({eqn.source})"
    if any(a.type.dtype is DType.string for a in (*graph.inputs, *graph.outputs)):
        return "it takes or gives strings"
    return None
