"""Check a file against a target: where operators run, refusals, losses and memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from jfuse.base.errors import KernelFailed, VerifyFailed
from jfuse.ir.graph import Eqn, Program
from jfuse.ir.walk import all_eqns
from jfuse.reports.device_check import DeviceCheck
from jfuse.running.ethos import has_ethos, placed
from jfuse.running.micro import measured_arena
from jfuse.tflite.runtime.versions import own_version
from jfuse.tflite.schema import is_custom
from jfuse.tflite.targets.compiled_model import why_not_loaded
from jfuse.tflite.targets.file_operators import operators_of
from jfuse.tflite.targets.target import Target

_NAMED = 8  # tensors in a line


@dataclass(frozen=True)
class OperatorCheck:
    """The operators of one builtin that fare alike.

    types: of the first operand and the first result. where: "runs", "NPU or GPU", "CPU" or "refused". first: the first
    tensor that one of them makes, where it has a name of the source.
    """

    builtin: str
    count: int
    version: int | None
    types: str
    where: str
    reason: str = ""
    first: str = ""


@dataclass(frozen=True)
class TargetCheck:
    """The check of a file against one target.

    open_inputs: inputs whose size is not fixed, where the target needs that. refusals: why a loader refuses the file as
    a whole. losses: silent changes of behaviour. arena_bytes: the memory besides the file that tflite-micro
    needs on this machine; None where it was not measured, `arena_note` says why. arena_bytes_32: an estimate of it on
    32 bits. compiler: the report of Arm's compiler for an Ethos-U, if installed; compiler_refuses: whether it takes
    the file at all. device: the check on a device, if one was given.
    """

    target: str
    operators: tuple[OperatorCheck, ...]
    open_inputs: tuple[str, ...]
    losses: tuple[str, ...]
    refusals: tuple[str, ...] = ()
    arena_bytes: int | None = None
    arena_bytes_32: int | None = None
    arena_note: str = ""
    compiler: str = ""
    compiler_refuses: bool = False
    device: DeviceCheck | None = None
    json_also: ClassVar = {"takes_it": "runs"}

    @property
    def runs(self) -> bool:
        """Whether the target takes the file."""
        return not self.compiler_refuses and not any(self.why_not())

    def why_not(self) -> Iterator[str]:
        """Yield the reasons why the target cannot run the file."""
        yield from (f"the size of {text} is open" for text in self.open_inputs)
        yield from self.refusals
        yield from (f"{o.builtin}: {o.reason}" for o in self.operators if o.where == "refused")

    def lines(self) -> Iterator[str]:
        """The check as text: a line for each kind of operator, then notes."""
        yield f"{self.target}: " + ("takes the file" if self.runs else "does not take the file")
        for o in self.operators:
            version = "" if o.version is None else f" v{o.version}"
            reason = f": {o.reason}" if o.reason else ""
            first = f" (first {o.first})" if o.reason and o.first else ""
            yield f"  {o.where:<10} {o.count:>4} x {o.builtin}{version} {o.types}{reason}{first}"
        yield from (
            f"  open size: {text}; convert the source with it fixed (--batch, --shape)" for text in self.open_inputs
        )
        yield from (f"  refused: {text}" for text in self.refusals)
        yield from (f"  warning: {text}" for text in self.losses)
        if self.arena_bytes is not None:
            yield (
                f"  arena: {self.arena_bytes} bytes, the least that runs it in tflite-micro on this machine of 64 "
                f"bits; about {self.arena_bytes_32} on 32 bits (an estimate)"
            )
        if self.compiler:
            yield f"  compiler: {self.compiler}"
        if self.arena_note:
            yield f"  arena: {self.arena_note}"


@dataclass(frozen=True)
class RuntimesCheck:
    """The check of a file against several targets.   device: as in `TargetCheck`"""

    targets: tuple[TargetCheck, ...]
    device: DeviceCheck | None = None
    json_also: ClassVar = {"takes_it": "takes_it"}

    @property
    def runs(self) -> bool:
        """Whether all of them take the file."""
        return len(self.takes_it) == len(self.targets)

    @property
    def takes_it(self) -> tuple[str, ...]:
        """The targets that take the file."""
        return tuple(t.target for t in self.targets if t.runs)

    def lines(self) -> Iterator[str]:
        """A line for each target: whether it takes the file, or the first reason why not."""
        for checked in self.targets:
            first, *others = [*checked.why_not(), ""]
            more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
            yield f"{checked.target:<15}" + (f"refuses the file: {first}{more}" if first else "takes the file")


def check_targets(program: Program, data: bytes, targets: Iterable[Target]) -> RuntimesCheck:
    """Check a program and its file against several targets, without measurements."""
    return RuntimesCheck(tuple(_checked(program, data, target) for target in targets))


def check_target(program: Program, data: bytes, target: Target) -> TargetCheck:
    """Check a program and its file against one target, with measurements and compilation."""
    checked = _checked(program, data, target)
    if target.compiles and has_ethos():
        checked = _compiled(checked, data)
    if "tflite-micro" not in target.runtimes or not checked.runs:
        return checked
    arena, note = measured_arena(program, data)
    if arena is None:
        return replace(checked, arena_note=note)
    return replace(checked, arena_bytes=arena.needed, arena_bytes_32=arena.on_32_bits)


def _checked(program: Program, data: bytes, target: Target) -> TargetCheck:
    open_inputs = [
        f"{name}: {var.type}"
        for s in program.signatures
        for name, var in zip(s.input_names, s.graph.inputs, strict=False)
        if target.static and not var.type.is_static
    ]
    operators = tuple(_operators(program, data, target))
    refusals = tuple(why_not_loaded(program)) if target.compiled_model else ()
    return TargetCheck(target.name, operators, tuple(open_inputs), tuple(target.losses_of(program)), refusals)


def _compiled(checked: TargetCheck, data: bytes) -> TargetCheck:
    """The check with the compiler's report."""
    try:
        placement = placed(data, checked.target)
    except KernelFailed as error:
        return replace(checked, compiler=f"{error.message} ({error.found or error.expected}): nothing is known")
    except VerifyFailed as error:
        return replace(checked, compiler=f"{error.message}: {error.found}", compiler_refuses=True)
    left = (
        f": {', '.join(placement.cpu[:_NAMED])}{' …' if len(placement.cpu) > _NAMED else ''}" if placement.cpu else ""
    )
    return replace(checked, compiler=f"{placement.npu} operators on the NPU, {len(placement.cpu)} on the CPU{left}")


def _operators(program: Program, data: bytes, target: Target) -> Iterator[OperatorCheck]:
    """A row for each builtin, types and verdict, in the order of the file; then those that only the file has."""
    groups: dict[tuple[str, int | None, str, str, str], list[Eqn]] = {}
    eqns: Sequence[Eqn] = [e for graph in program.entries() for e in all_eqns(graph)]
    for eqn in eqns:
        where, reason = _verdict(eqn, target)
        version = own_version(eqn) if eqn.version is None else eqn.version
        groups.setdefault((str(eqn.op.builtin), version, _types(eqn), where, reason), []).append(eqn)
    for (builtin, version, types, where, reason), alike in groups.items():
        first = next((v.name for v in alike[0].outputs if v.name and not v.name.startswith(";")), "")
        yield OperatorCheck(builtin, len(alike), version, types, where, reason, first)
    named = {str(eqn.op.builtin) for eqn in eqns}
    for builtin, count in operators_of(data).items():
        if builtin not in named and not is_custom(builtin):
            yield OperatorCheck(builtin, count, 1, "", target.place_of(builtin))


def _verdict(eqn: Eqn, target: Target) -> tuple[str, str]:
    reason = target.why_not(eqn)
    if reason is not None:
        return "refused", reason
    if target.accelerator is None:
        return "runs", ""
    on_cpu = target.why_on_cpu(eqn)
    return ("NPU or GPU", "") if on_cpu is None else ("CPU", on_cpu)


def _types(eqn: Eqn) -> str:
    first = next((str(a.type.dtype.value) for a in eqn.inputs if a is not None), "-")
    result = eqn.outputs[0].type.dtype.value if eqn.outputs else "-"
    return first if first == result else f"{first} to {result}"
