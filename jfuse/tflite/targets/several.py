"""Several targets as one, for a file that all of them take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jfuse.ir.graph import Eqn, Program
from jfuse.ir.types import DType
from jfuse.tflite.targets.target import Target

_WORST_FIRST = ("refused", "CPU")
_COMPOSITE = "STABLEHLO_COMPOSITE"


@dataclass(frozen=True)
class SeveralTargets(Target):
    """Targets that all take the file: what one of them lacks, this one lacks.   parts: the targets, two or more

    The fields of `Target` are those of the strictest part; what depends on an equation is asked of each part.
    """

    parts: tuple[Target, ...] = ()

    def each(self) -> tuple[Target, ...]:
        """The parts."""
        return self.parts

    @property
    def in_interpreter(self) -> bool:
        """Whether one of them is LiteRT's Interpreter."""
        return any(part.in_interpreter for part in self.parts)

    @property
    def is_timed_here(self) -> bool:
        """Whether LiteRT's times on this machine say something of one of them."""
        return any(part.is_timed_here for part in self.parts)

    @property
    def has_xnnpack(self) -> bool:
        """Whether all of them are LiteRT on processors: elsewhere the fused operators of integers are as fast."""
        return all(part.has_xnnpack for part in self.parts)

    def takes_further(self, eqn: Eqn, dtype: DType) -> bool:
        """Whether all of them take activations of a type that LiteRT's kernel does not take."""
        return all(part.takes_further(eqn, dtype) for part in self.parts)

    def lacks_integers(self, eqn: Eqn, *types: DType) -> bool:
        """Whether one of them is known to have no right kernel of an op for quantized types."""
        return any(part.lacks_integers(eqn, *types) for part in self.parts)

    def why_not(self, eqn: Eqn) -> str | None:
        """Explain why an equation cannot run on some of the targets, and on which."""
        return self._reasons(lambda part: part.why_not(eqn))

    def why_on_cpu(self, eqn: Eqn) -> str | None:
        """Explain why an equation stays off the accelerator of some of the targets."""
        return self._reasons(lambda part: part.why_on_cpu(eqn))

    def why_another_form(self, eqn: Eqn) -> str | None:
        """Why to write something else than an equation, for some of them."""
        return self._reasons(lambda part: part.why_another_form(eqn))

    def has(self, builtin: str) -> bool:
        """Whether all of them have an operator in some form."""
        return all(part.has(builtin) for part in self.parts)

    def losses_of(self, program: Program) -> list[str]:
        """List the silent differences of each target for a program."""
        return [line for part in self.parts for line in part.losses_of(program)]

    def place_of(self, builtin: str) -> str:
        """Where an operator without types runs on the worst of them."""
        places = {part.place_of(builtin) for part in self.parts}
        return next((place for place in _WORST_FIRST if place in places), "runs")

    def _reasons(self, reason_of: Callable[[Target], str | None]) -> str | None:
        targets_of: dict[str, list[str]] = {}
        for part in self.parts:
            if (reason := reason_of(part)) is not None:
                targets_of.setdefault(reason, []).append(part.name)
        return "; ".join(f"{reason} ({', '.join(names)})" for reason, names in targets_of.items()) or None


def together(targets: Sequence[Target]) -> Target:
    """One target for files that all of them take."""
    if len(targets) == 1:
        return targets[0]
    composites = frozenset[str]().union(*(t.composites for t in targets))
    return SeveralTargets(
        ",".join(t.name for t in targets),
        runs=next((t.runs for t in targets if t.runs is not None), None),
        oldest=next((t.oldest for t in targets if t.oldest is not None), None),
        accelerator=next((t.accelerator for t in targets if t.accelerator is not None), None),
        whole=any(t.whole for t in targets),
        static=any(t.static for t in targets),
        single=any(t.single for t in targets),
        compiled_model=any(t.compiled_model for t in targets),
        runtimes=tuple(dict.fromkeys(name for t in targets for name in t.runtimes)),
        composites=composites if all(t.has(_COMPOSITE) for t in targets) else frozenset(),
        parts=tuple(targets),
    )
