"""The gates before the file: reports everything that TFLite's builtins cannot express, in one message."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import replace

from jfuse.base.errors import LowerError
from jfuse.ir.declared_types import is_stated
from jfuse.ir.graph import Eqn, Graph, Program
from jfuse.ir.walk import all_eqns
from jfuse.kernels.control import composite
from jfuse.opaque_ops.state_operands import keeps_state
from jfuse.passes.context import Context
from jfuse.passes.gates.alternatives import alternative_to
from jfuse.passes.gates.custom_ops import is_let_in
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.passes.states.layers import layer_of
from jfuse.tflite.runtime.dtypes import unsupported
from jfuse.tflite.schema import BUILTIN_CODES
from jfuse.tflite.targets.target import Target

_NO_RULE = (
    '@jfuse.lowers("{op}") (a rule: how to spell it in TFLite ops), '
    "pipeline=jfuse.Pipeline(select_tf_ops=True) (Flex operators) or "
    'pipeline=jfuse.Pipeline(custom_ops=["{op}"]) (a kernel of your own); docs/unsupported.md says what each costs'
)
_NOT_PROVEN = (
    "trust=True on {rule}, which was not used for {name!r} at {source}: what it replaces holds such an op, so that "
    "nothing can be proven (docs/rules.md)"
)
_NOT_EQUAL = "another rule than {rule}, which does not compute what {name!r} at {source} does: {reason}"
_NO_KERNEL = "cast to one of the types that the kernel takes, in the source"
_NOT_ON_TARGET = (
    "other layers in the source, or a target that has these operators; `jfuse check FILE --target {target}` tells of "
    "any file what this one takes"
)
_SEVERAL = "a file for each of them: one target= (--target) after the other"
_INDENT = "\n            "


def builtins_only(graphs: Iterable[Graph]) -> None:
    """Raise LowerError for all equations whose op is no operator of a file, with counts and the first node of each."""
    _refuse([e for graph in graphs for e in all_eqns(graph) if not _is_operator(e)])


def check_operators(graphs: Iterable[Graph], variables: Collection[str] = (), target: Target | None = None) -> None:
    """As `builtins_only`, and for all equations that the runtime's kernels, or the target, do not take.

    variables: the names of the source's variables, which tell its layers.
    """
    eqns = [e for graph in graphs for e in all_eqns(graph)]
    _refuse([e for e in eqns if _reason(e, target) is not None], variables, target)


def only_operators(program: Program, ctx: Context) -> Program:
    """The program as it is; raises LowerError where it is not `check_operators`.

    A function whose body has operators that no file has, and whose rule could not be proven for that: said with them.
    """
    try:
        check_operators(program.graphs(), ctx.variables, ctx.target)
    except LowerError as error:
        said = {"body_not_executable": _NOT_PROVEN, "not_equal": _NOT_EQUAL}
        lines = [
            said[r.condition].format(rule=r.rule, name=r.what, source=r.source, reason=r.reason)
            for r in ctx.report.refused
            if r.condition in said and r.what not in ctx.rules.recovers
        ]
        error.remedy = _INDENT.join([*lines, *filter(None, [error.remedy])])
        raise
    return program


def plain_numbers(program: Program, ctx: Context) -> Program:
    """The program as it is; raises LowerError where it is quantized, or holds what only a file that was read does.

    Passes reason about what ops compute, which is not what these equations do. A recipe leaves operators without an op
    as they are, if they neither keep a state nor have bodies.
    """
    eqns = (e for graph in program.entries() for e in all_eqns(graph))
    for eqn in eqns:
        is_unknown = eqn.op.is_kept or (eqn.op.code is not None and keeps_state(eqn))
        if is_unknown and ctx.recipe is not None:
            is_unknown = bool(keeps_state(eqn) or eqn.bodies or eqn.effects)
        if is_stated(eqn) or is_unknown or eqn.intermediates:
            raise LowerError(
                "a program that is quantized, or has operators without an op of jfuse, is not lowered",
                where=str(eqn.source) or None,
                found=str(eqn),
                remedy="save it as it is (it consists of the file's operators), or lower the float model",
            )
    return program


def no_lost_ops(program: Program, ctx: Context) -> Program:
    """The program as it is; raises LowerError for opaque ops that no later pass could take, before any work is done.

    Those in the body of a composite that has a rule, or is to be a custom operator, may go with it; those that nobody
    reads are dropped.
    """
    taken = {*ctx.rules.fuses, *ctx.pipeline.custom_ops}
    eqns = (e for graph in program.graphs() for e in _staying(eliminate_dead_code(graph), taken))
    _refuse([e for e in eqns if e.op.tf_name is not None and not is_let_in(e, ctx)], ctx.variables)
    return program


def _staying(graph: Graph, fused: Container[str]) -> Iterator[Eqn]:
    """The equations outside of composites of these names, each before those of its bodies."""
    waiting = list(reversed(graph.eqns))
    while waiting:
        eqn = waiting.pop()
        yield eqn
        for body in () if eqn.op is composite and eqn.params["name"] in fused else reversed(eqn.bodies):
            waiting += reversed(body.eqns)


def _is_operator(eqn: Eqn) -> bool:
    return eqn.op.builtin in BUILTIN_CODES


def _reason(eqn: Eqn, target: Target | None) -> str | None:
    """Explain why an equation cannot be in the file, or the file not on the target; None where both are fine."""
    if not _is_operator(eqn):
        return eqn.op.reason or ""
    return unsupported(eqn) or (None if target is None else target.why_not(eqn))


def _refuse(eqns: Iterable[Eqn], variables: Collection[str] = (), target: Target | None = None) -> None:
    by_op: dict[str, list[Eqn]] = {}
    for eqn in eqns:
        by_op.setdefault(eqn.op.name, []).append(eqn)
    if not by_op:
        return
    is_lite = target is None or (target.runs is None and target.oldest is None and not target.whole)
    spelling, expected = ("TFLite spelling", "TFLite builtin ops only")
    if not is_lite and target is not None:
        spelling, expected = f"spelling on the target {target.name}", f"operators that {target.name} takes"
    raise LowerError(
        f"{len(by_op)} {'op has' if len(by_op) == 1 else 'ops have'} no {spelling}",
        expected=expected,
        found=_INDENT.join(_lines(name, by_op[name], variables, target) for name in sorted(by_op)),
        remedy=_INDENT.join(_remedies([eqns[0] for eqns in by_op.values()], target)) or None,
    )


def _lines(name: str, eqns: Sequence[Eqn], variables: Collection[str], target: Target | None) -> str:
    """Describe the equations of one op: their number of nodes, the first one, its layer and the reason."""
    first = eqns[0]
    nodes = {str(replace(e.source, op="")) or id(e) for e in eqns}  # a loop that was unrolled repeats its nodes
    reason = _reason(first, target)
    place = str(first.source) or "a node without a name"
    layer = layer_of(first.source, variables)
    line = f"{name} ({len(nodes)}x, first at {place}{f', {layer}' if layer else ''})"
    why, *remedies = (reason or "").splitlines() or [""]
    advice = alternative_to(first.op.tf_name) if first.op.tf_name is not None else ""
    return f"{_INDENT}  ".join([f"{line}: {why}" if why else line, *filter(None, remedies or [advice])])


def _remedies(firsts: Sequence[Eqn], target: Target | None = None) -> Iterator[str]:
    opaque = [e.op.tf_name for e in firsts if e.op.tf_name is not None]
    if opaque:
        yield _NO_RULE.format(op=opaque[0])
    bound = [e.op.tf_name for e in firsts if e.op.tf_name is not None and not e.op.node]
    if bound:
        yield f"custom_ops= cannot take ops that refer to other nodes of their graph: {', '.join(bound)}"
    if any(_is_operator(e) and unsupported(e) is not None for e in firsts):
        yield _NO_KERNEL
    if any(_is_operator(e) and unsupported(e) is None for e in firsts) and target is not None:
        yield _NOT_ON_TARGET.format(target=target.name)
        yield from [_SEVERAL] if len(target.each()) > 1 else []
