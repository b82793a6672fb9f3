"""Errors that LiteRT makes with its default delegate alone: an interpreter that keeps all tensors runs without it.

A file whose results are all outputs runs with the delegate, and shows its result of each operator. What it makes
of operators that it runs as one shows in files that end after some of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.base.measure import relative_error
from jfuse.ir.graph import Eqn, Signature, Var
from jfuse.ir.walk import producers
from jfuse.running.interpreter import LiteRt
from jfuse.running.runner import on_default_path
from jfuse.running.worker import Refused
from jfuse.verification.locate.culprit import Culprit, blamed
from jfuse.verification.locate.file_values import FileRun, OtherFile
from jfuse.verification.locate.local_errors import LocalStep, OtherValues, Walk
from jfuse.verification.runners.node_values import Value
from jfuse.verification.subject import Arrays

DELEGATE = "XNNPACK"
_NEARER = 4  # times; two good kernels are about as far from a third
_OF_THE_WHOLE = 0.01  # of the error at the end: what is less in the middle may be rounding


@dataclass
class CertainValues:
    """Values that are known beyond doubt."""

    of: Mapping[Var, np.ndarray]
    certain: bool = True

    def results(self, number: int, eqn: Eqn, computed: Sequence[Value]) -> Sequence[Value]:
        """The known values of an equation's results, None for each other."""
        return [self.of.get(var) for var in eqn.outputs]

    def enter(
        self, walk: Walk, step: LocalStep, body: int, turn: int, operands: Sequence[np.ndarray]
    ) -> OtherValues | None:
        """None: no values inside of bodies are known."""
        return None

    def candidates(self, eqn: Eqn, shape: Sequence[int], dtype: np.dtype) -> Iterable[np.ndarray]:
        """None: every value's place is known."""
        return ()


@dataclass(frozen=True)
class DelegateCall:
    """One call of a signature of a file, with the delegate.

    args: XLA's inputs and states. inputs: by name; before: all calls before it, keys and inputs. others: further
    signatures, by key, for these.
    """

    data: bytes
    signature: Signature
    args: Sequence[np.ndarray]
    inputs: Arrays
    before: Sequence[tuple[str, Arrays]] = ()
    others: Mapping[str, Signature] = field(default_factory=dict)

    def blamed(self) -> tuple[Culprit, bool] | None:
        """The equation that errs, and whether it does with others before it alone; None where rounding explains all."""
        with on_default_path():
            return self._blamed()

    def _blamed(self) -> tuple[Culprit, bool] | None:
        try:
            run = FileRun(self.data)
            walk = self._walk(self._shown(run, range(len(self.signature.graph.eqns))))
            beside = _KernelComparison(walk, self._plain(run))
            alone = blamed(walk)
            if alone is not None:
                return (alone, False) if beside.errs(alone.step) else None
            found = self._together(run, beside)
            return None if found is None else (found, True)
        except (OtherFile, VerifyFailed, Refused):  # LiteRT does not run the file, or parts of it
            return None

    def _together(self, run: FileRun, beside: _KernelComparison) -> Culprit | None:
        """Find the equation that errs in the whole file, or in the shortest prefix that errs too.

        Searches by bisection, so that an error which larger numbers hide for a while is reported where it reappears.
        """
        graph, made = self.signature.graph, producers(self.signature.graph)
        named = zip(self.signature.output_names, graph.outputs, strict=False)
        results = self._results(self.data)
        values = {var: results[name] for name, var in named if isinstance(var, Var) and var in made}
        numbers = {id(eqn): number for number, eqn in enumerate(graph.eqns)}
        steps = [beside.step(numbers[id(made[var])], values) for var in values]
        worst = max((s for s in steps if beside.errs(s)), key=lambda s: s.own or 0.0, default=None)
        if worst is None:
            return None
        if self.before or self.signature.states:
            return Culprit(beside.walk, worst, (worst.number,), (), 0)
        # Invariant: the prefix of `right` equations is right, that of `wrong` equations errs.
        right, wrong, shortest = 0, worst.number + 1, worst
        while wrong - right > 1:
            middle = (right + wrong) // 2
            step = beside.step(middle - 1, self._shown(run, [middle - 1]))
            if beside.errs(step, (worst.own or 0.0) * _OF_THE_WHOLE):
                wrong, shortest = middle, step
            else:
                right = middle
        return Culprit(beside.walk, shortest, (shortest.number,), ())

    def _walk(self, values: Mapping[Var, np.ndarray]) -> Walk:
        return Walk(self.signature.graph, self.args, self.args, CertainValues(values)).run()

    def _shown(self, run: FileRun, numbers: Sequence[int]) -> dict[Var, np.ndarray]:
        """Values from the delegate when the results of some equations become outputs."""
        data, names = run.showing(self.signature, numbers)
        results = self._results(data)
        return {var: results[name] for name, var in names.items()}

    def _results(self, data: bytes) -> dict[str, np.ndarray]:
        lite = LiteRt(data)
        for key, inputs in self.before:
            lite.run(key, inputs)
        return lite.run(self.signature.key, self.inputs)

    def _plain(self, run: FileRun) -> Mapping[Var, np.ndarray]:
        """Values of all equations from LiteRT's own kernels."""
        for key, inputs in self.before:
            run.call(self.others[key], inputs)
        return run.call(self.signature, self.inputs)[1].of


@dataclass(frozen=True)
class _KernelComparison:
    """Compares errors of the delegate with those of LiteRT's own kernels; errors of both are accumulated rounding.

    walk: of XLA. plain: the values of the own kernels.
    """

    walk: Walk
    plain: Mapping[Var, np.ndarray]

    def step(self, number: int, values: Mapping[Var, np.ndarray]) -> LocalStep:
        """An equation with its results from the delegate and those of XLA's own run."""
        step = self.walk.steps[number]
        results = tuple(values.get(var) for var in step.eqn.outputs)
        compared = replace(step, found=step.straight, wanted=results)
        return replace(compared, own=compared.largest)

    def errs(self, step: LocalStep, least: float = 0.0) -> bool:
        """Whether the own kernels are nearer to XLA.   least: the error that counts, besides rounding"""
        results = zip(step.eqn.outputs, step.straight, step.wanted, strict=True)
        pairs = [(self.plain.get(var), mine) for var, mine, shown in results if shown is not None]
        errors = [math.inf if a is None or b is None else relative_error(a, b) for a, b in pairs]
        own, plain = step.own or 0.0, max(errors, default=math.inf)
        return step.exceeds and least <= own and math.isfinite(plain) and _NEARER * plain <= own
