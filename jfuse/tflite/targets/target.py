"""A target: conditions on a file for a runtime, the operators left to its CPU, and silent differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jfuse.ir.graph import Eqn, Program, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType
from jfuse.opaque_ops.state_operands import keeps_state
from jfuse.tflite.runtime.versions import has_runtime, min_runtime, own_version
from jfuse.tflite.targets.conditions import ANY_BUILTIN, Conditions
from jfuse.tflite.targets.table import OperatorTable, integer_types


@dataclass(frozen=True)
class Loss:
    """A silent difference of a target from LiteRT.   of: whether a program meets it"""

    text: str
    of: Callable[[Program], bool] = lambda program: True


@dataclass(frozen=True)
class Target:
    """One way to run files. Passes ask it; none knows its name.

    runs: the operators of its interpreter; None for LiteRT's. oldest: the oldest runtime that must take the file.
    accelerator: the operators of its NPU or GPU; what it has not falls to the CPU. whole: a graph runs there as a whole
    or not at all. static: all sizes are fixed. single: it calls one signature. compiled_model: whether LiteRT's
    CompiledModel loads its files, which takes no variable tensors (litert/core/model/model_load.cc). loses: what it
    does otherwise without telling. resolver: whether a program for it lists its operators in C++. runtimes: the further
    runtimes of `jfuse.verify` that run its files. composites: the composites of StableHLO, by name, that its
    accelerator has a function for. compiles: whether Arm's compiler makes programs for it. further_types: of
    activations that its kernels take and LiteRT's do not, by builtin. custom: the custom operators, by name, that its
    accelerator has.
    """

    name: str
    runs: OperatorTable | None = None
    conditions: Conditions = field(default_factory=dict)
    oldest: str | None = None
    accelerator: OperatorTable | None = None
    placed: Conditions = field(default_factory=dict)
    whole: bool = False
    static: bool = False
    single: bool = False
    compiled_model: bool = False
    loses: tuple[Loss, ...] = ()
    resolver: bool = False
    runtimes: tuple[str, ...] = ()
    composites: frozenset[str] = frozenset()
    compiles: bool = False
    further_types: Mapping[str, frozenset[DType]] = field(default_factory=dict)
    custom: frozenset[str] = frozenset()

    def each(self) -> tuple[Target, ...]:
        """The targets that this one covers: itself."""
        return (self,)

    @property
    def in_interpreter(self) -> bool:
        """Whether it is LiteRT's Interpreter."""
        return self.runs is None

    @property
    def is_timed_here(self) -> bool:
        """Whether LiteRT's times on this machine say something of it."""
        return self.accelerator is None and (self.in_interpreter or self.compiled_model)

    @property
    def has_xnnpack(self) -> bool:
        """Whether LiteRT runs the file on processors: its float kernels and XNNPACK are there."""
        return self.in_interpreter or self.compiled_model

    def takes_further(self, eqn: Eqn, dtype: DType) -> bool:
        """Whether a kernel takes activations of a type that LiteRT's does not take."""
        return dtype in self.further_types.get(str(eqn.op.builtin), ()) and self.why_not(eqn) is None

    def lacks_integers(self, eqn: Eqn, *types: DType) -> bool:
        """Whether its interpreter is known to have no right kernel of an op for quantized types.

        types: of its activations, and of its constant weights, where it has any.
        """
        if self.oldest is not None and len(types) == 1 and self._too_new(_with_activations(eqn, *types)) is not None:
            return True
        entry = None if self.runs is None else self.runs.operators.get(str(eqn.op.builtin))
        return entry is not None and integer_types(*types) in entry.no_integers

    def why_not(self, eqn: Eqn) -> str | None:
        """Explain why a builtin's equation cannot run at all; None where it can."""
        if eqn.op.builtin is None:
            return None
        if self.compiled_model and keeps_state(eqn):
            return "CompiledModel loads no variable tensors, which hold its states"
        if eqn.op.code is not None and (not self.whole or eqn.op.code in self.custom):
            return self._why_not_custom(eqn.op.code)
        is_quantized = any(v.type.quantization is not None for v in eqn.outputs)
        if self.accelerator is not None and not self.whole and is_quantized and self.why_on_cpu(eqn) is None:
            return self._too_new(eqn)  # nothing else needs to have it
        if self.runs is not None and (reason := self.runs.why_not(eqn)) is not None:
            return reason
        reason = _first(self.conditions, eqn) or self._too_new(eqn)
        return self.why_on_cpu(eqn) if reason is None and self.whole else reason

    def why_on_cpu(self, eqn: Eqn) -> str | None:
        """Explain why an equation stays off the accelerator; None where it runs there, or there is none."""
        if self.accelerator is None or eqn.op.builtin is None or eqn.op.code in self.custom:
            return None
        typed = any(e.types is not None for e in self.accelerator.operators.values())
        return self.accelerator.why_not(eqn, quantized_only=typed) or _first(self.placed, eqn)

    def why_another_form(self, eqn: Eqn) -> str | None:
        """Why to write something else than an equation, where there is something else.

        Of an accelerator only whether it has the operator counts: types come later, when a model is quantized.
        """
        reason = self.why_not(eqn)
        if reason is not None or self.accelerator is None or eqn.op.builtin is None:
            return reason
        if eqn.op.builtin not in self.accelerator.operators:
            return f"{self.accelerator.runtime} has no {eqn.op.builtin}"
        return _first(self.placed, eqn)

    def has(self, builtin: str) -> bool:
        """Whether the target has an operator in some form."""
        tables = [t for t in (self.runs, self.accelerator) if t is not None]
        return all(builtin in table.operators for table in tables)

    def losses_of(self, program: Program) -> list[str]:
        """List the silent differences of the target for a program."""
        return [f"{self.name}: {loss.text}" for loss in self.loses if loss.of(program)]

    def place_of(self, builtin: str) -> str:
        """Where an operator without types runs, as those of variables: "runs", "CPU" or "refused"."""
        tables = [self.runs, self.accelerator if self.whole else None]
        if any(table is not None and builtin not in table.operators for table in tables):
            return "refused"
        return "runs" if self.accelerator is None or builtin in self.accelerator.operators else "CPU"

    def _why_not_custom(self, code: str) -> str | None:
        """Explain why a custom operator cannot run: Flex operators need a delegate; users bring the other kernels."""
        return (
            f"{self.runs.runtime} has no Flex delegate" if self.runs is not None and code.startswith("Flex") else None
        )

    def _too_new(self, eqn: Eqn) -> str | None:
        if self.oldest is None:
            return None
        builtin, version = str(eqn.op.builtin), own_version(eqn) if eqn.version is None else eqn.version
        if version is None or not has_runtime(builtin, version):
            return f"no runtime is known for {builtin}"
        needed = min_runtime(builtin, version)
        if numbers(needed) <= numbers(self.oldest):
            return None
        return f"{builtin} version {version} needs runtime {needed}"


def _with_activations(eqn: Eqn, dtype: DType) -> Eqn:
    """An equation without weights whose floats are integers."""

    def typed(atom: Any) -> Any:
        if atom is None or atom.type.dtype is not DType.f32:
            return atom
        return Var(replace(atom.type, dtype=dtype, quantization=Quantization((1.0,), (0,))))

    return replace(eqn, inputs=tuple(map(typed, eqn.inputs)), outputs=tuple(map(typed, eqn.outputs)))


def numbers(release: str) -> tuple[int, ...]:
    """A release as three numbers, which compare as releases do."""
    parts = [int(part) for part in release.split(".")]
    return tuple(parts + [0] * (3 - len(parts)))


def _first(conditions: Conditions, eqn: Eqn) -> str | None:
    asked = (*conditions.get(str(eqn.op.builtin), ()), *conditions.get(ANY_BUILTIN, ()))
    return next(filter(None, (condition(eqn) for condition in asked)), None)
