"""The targets by name. A new one is a row here, and a table that `bench/target_tables.py` makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jfuse.base.errors import JfuseError, shown
from jfuse.ir.graph import Eqn, Program
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.opaque_ops.custom_options import GPU_OPS
from jfuse.opaque_ops.state_operands import state_operands
from jfuse.tflite.targets.conditions import GPU, MICRO, MICRO_TYPES
from jfuse.tflite.targets.ethos_conditions import ethos_conditions
from jfuse.tflite.targets.names import NAMES, OLDEST, names_in
from jfuse.tflite.targets.table import table_of
from jfuse.tflite.targets.target import Loss, Target

_LSTM_STATES = 2  # no other op with integer kernels has so many


def _is_integer(eqn: Eqn) -> bool:
    x = eqn.inputs[0] if eqn.inputs else None
    return x is not None and x.type.dtype in (DType.i8, DType.i16)


def _has_integer_lstm_with_state(program: Program) -> bool:
    """Whether an integer LSTM starts from something else than what a call begins with."""
    lstms = [e for g in program.entries() for e in all_eqns(g) if len(state_operands(e)) == _LSTM_STATES]
    state_vars = {v for s in program.signatures for v in s.graph.inputs[len(s.input_names) :]}
    return any(_is_integer(e) and any(e.inputs[i] in state_vars for i in state_operands(e)) for e in lstms)


def _keeps_states(program: Program) -> bool:
    return any(s.home == "tensor" for s in program.states())


_CMSIS_FORGETS = Loss(
    "CMSIS-NN's integer LSTM starts every call from zero: the state that this file keeps is lost there, without an "
    "error. Write single steps with states as inputs and outputs (state='io')",
    _has_integer_lstm_with_state,
)
_ONERT_ENDS = Loss(
    "a state that no operator writes ends onert's process (0.2.0); keep it in inputs and outputs for it (state='io')",
    _keeps_states,
)
_GPU_WHOLE = Loss(
    "LiteRT's GPU path takes a graph as a whole or not at all: with one operator that it lacks, all runs on the CPU"
)
_NPU_FLOAT = Loss(
    "an NPU computes on integers: floats fall to the CPU until the file is quantized",
    lambda program: any(v.type.dtype is DType.f32 for g in program.entries() for v in g.inputs),
)


_GOOGLE_COMPOSITES = frozenset({"odml.rms_norm", "odml.group_norm", "odml.scaled_dot_product_attention"})
"""Source: litert/vendors/google_tensor/compiler/compiler_plugin.cc, kSupportedStableHloCompositeOps"""

_NPU_LSTM = Loss(
    "Arm's compiler (5.2) refuses a file with an LSTM of floats: quantize it before it is compiled",
    lambda program: any(
        not _is_integer(e) and len(state_operands(e)) == _LSTM_STATES for g in program.entries() for e in all_eqns(g)
    ),
)


def _micro(name: str, *loses: Loss) -> Target:
    return Target(
        name,
        runs=table_of("tflite-micro"),
        conditions=MICRO,
        static=True,
        single=True,
        loses=(*loses, _ONERT_ENDS),
        resolver=True,
        runtimes=("tflite-micro",),
        further_types=MICRO_TYPES,
    )


def _compiled(name: str, **more: Any) -> Target:
    """A target that is reached by LiteRT's CompiledModel.   more: of its accelerator"""
    return Target(name, runs=table_of("compiled-model"), compiled_model=True, runtimes=("compiled-model",), **more)


def _ethos(name: str, npu: str = "ethos-u55") -> Target:
    return Target(
        name,
        runs=table_of("tflite-micro"),
        conditions=MICRO,
        accelerator=table_of(npu),
        compiles=True,
        placed=ethos_conditions(npu),
        static=True,
        single=True,
        loses=(_NPU_FLOAT, _NPU_LSTM),
        resolver=True,
        runtimes=("tflite-micro",),
        further_types=MICRO_TYPES,
    )


_TARGETS: Mapping[str, Callable[[], Target]] = {
    "litert": lambda: Target("litert", loses=(_ONERT_ENDS,)),
    "compiled-model": lambda: _compiled("compiled-model"),
    "tflite-micro": lambda: _micro("tflite-micro"),
    "cmsis-nn": lambda: _micro("cmsis-nn", _CMSIS_FORGETS),
    "ethos-u55": lambda: _ethos("ethos-u55"),
    "ethos-u65": lambda: _ethos("ethos-u65"),
    "ethos-u85": lambda: _ethos("ethos-u85", "ethos-u85"),
    "litert-gpu": lambda: _compiled(
        "litert-gpu",
        accelerator=table_of("litert-gpu"),
        placed=GPU,
        whole=True,
        static=True,
        loses=(_GPU_WHOLE,),
        custom=GPU_OPS,
    ),
    "google-tensor": lambda: _compiled(
        "google-tensor",
        accelerator=table_of("google-tensor"),
        static=True,
        composites=_GOOGLE_COMPOSITES,
    ),
}


def target_named(target: str | Sequence[str]) -> Target:
    """The target of a name, or one for several: "a,b" or a sequence of names.

    Each is one of `NAMES`, where X.Y is the oldest runtime that must take the file.
    """
    names = names_in(target) if isinstance(target, str | list | tuple) else ()
    if not names:
        raise JfuseError(f"no target {shown(target)}", expected=", ".join(NAMES), remedy='target="litert"')
    return together([_named(name) for name in dict.fromkeys(names)])


def _named(name: Any) -> Target:
    oldest = OLDEST.fullmatch(name) if isinstance(name, str) else None
    if oldest is not None:
        return Target(name, oldest=oldest.group(1))
    if not isinstance(name, str) or name not in _TARGETS:
        raise JfuseError(f"no target {shown(name)}", expected=", ".join(NAMES), remedy='target="litert"')
    return _TARGETS[name]()


# Several targets as one, for a file that all of them take.

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
