"""Profitability of a fusion: operators run, bytes of constants and time, of the fused ops and of plain ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, prod

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Const, Eqn, Graph
from jfuse.kernels.control import scan, while_
from jfuse.kernels.core.op import TflOp
from jfuse.lowering.rules import FuseRule, need
from jfuse.opaque_ops.state_operands import keeps_state, state_operands
from jfuse.passes.context import Context, Lowered
from jfuse.passes.options import ANY_MACHINE
from jfuse.passes.scans.to_loops.fused_cost import fused_microseconds
from jfuse.passes.scans.to_loops.loop_cost import OPERATOR_US, WEIGHT_US
from jfuse.records.conversion import Speed

HOISTED_US = 5e-6  # a byte of weights and a row, in a product for all steps at once before the loop

# How many times as long as plain ops fused ones may take. Over sequences they were measured at 0.4 to 6.4 times the
# fastest other form (bench/loops.py), single steps at 1.5 to 3 times plain ops: who prefers fused ops prefers them all
# the same.
SLOWER = {"auto": 8.0, "fused": 8.0, "speed": 1.0, "size": inf}
# How many times the bytes of constants a loop may excuse: a mask or a bias within a norm adds a column to the weights,
# a projection to more values than units adds rows. Straight code excuses nothing but small matrices.
LARGER = 2.0
FEW_BYTES = 1 << 10

_PACKAGE = "jfuse."


@dataclass(frozen=True)
class Cost:
    """The cost of one invoke of a graph: operators that run, bytes of constants, and estimated microseconds.

    loops: whether some of the operators run in loops. form: the fastest form of these loops, "" without loops.
    forms: the microseconds in each form of the loop, where there is one.
    """

    operators: int
    bytes: int
    microseconds: float
    loops: bool = False
    form: str = ""
    forms: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, lowered: Lowered, machine: str = ANY_MACHINE) -> Cost:
        """The cost of a graph in operators of a file, whose loops are written with one step a turn."""
        graph = lowered.graph
        loops = [loop for loop in lowered.loops if loop.form != "unrolled"]  # those stand in the graph
        outside = [eqn for eqn in graph.eqns if eqn.op is not while_ or not loops]
        around = sum(plain_microseconds(eqn, machine) for eqn in outside)
        run = sum(1 + sum(len(body.eqns) for body in eqn.bodies) + _writers(eqn) for eqn in outside)
        return cls(
            run + sum(loop.operators for loop in loops),
            _constant_bytes(graph),
            around + sum(loop.microseconds for loop in loops),
            bool(loops),
            " and ".join(dict.fromkeys(loop.fastest for loop in lowered.loops)),
            {form: around + us for form, us in loops[0].forms.items()} if len(loops) == 1 else {},
        )


@dataclass(frozen=True)
class Costs:
    """The cost of a function in plain operators, and its cost in fused ones."""

    plain: Cost
    fused: Cost

    @classmethod
    def of(cls, body: Graph, replacement: Graph, ctx: Context) -> Costs | None:
        """The costs of a body and its replacement; None for what only the user's own op computes.

        body, replacement: with constants put in, and with the results alone that are read.
        """
        if any(
            not keeps_state(eqn) and not isinstance(eqn.op, TflOp) and eqn.op is not scan for eqn in replacement.eqns
        ):
            return None
        lowered = (ctx.sub.as_lowered(graph, ctx, True) for graph in (body, replacement))
        return cls(*(Cost.of(graph, ctx.forms.machine) for graph in lowered))

    def need_worth(self, prefer: str) -> None:
        """Refuse a fusion that costs more than plain ops in one of the measures, with both numbers."""
        compare(self.plain, self.fused, prefer)

    def speed(self, is_asked_for: bool) -> Speed | None:
        """Compare the times of the two forms for the report.   is_asked_for: also where speed is preferred"""
        if not self.plain.form:
            return None
        fused, plain = self.fused.microseconds, self.plain.microseconds
        return Speed(fused, plain, self.plain.form, is_asked_for or fused <= plain * SLOWER["speed"], self.plain.forms)


def compare(before: Cost, after: Cost, prefer: str) -> None:
    """Refuse `after` where it runs more operators, holds more bytes or takes longer than `before` may excuse."""
    got = f"{after.operators} instead of {before.operators}"
    need(after.operators <= before.operators, "more_operators", want="no more operators than plain ones", got=got)
    got = f"{after.bytes} bytes of constants instead of {before.bytes}"
    most = (LARGER if before.loops else 1.0) * before.bytes + FEW_BYTES
    need(after.bytes <= most, "more_bytes", want="constants about as large as those of plain ops", got=got)
    times = SLOWER[prefer]
    most_us = before.microseconds * times
    fits = after.microseconds <= most_us
    plain = "the loop takes" if before.loops else "plain ops take"
    want = f"at most {most_us:.3g} us, " + (f"{times:g} times what {plain}" if times != 1 else f"as {plain}")
    got = f"about {after.microseconds:.3g} us"
    need(fits or not before.loops, "loop_is_faster", want=want, got=got)
    need(fits, "plain_is_faster", want=want, got=got)


def is_asked_for(name: str, rule: FuseRule, ctx: Context, prefer: str) -> bool:
    """Whether a fusion is taken without a look at its cost: the user marked the function.

    Where speed is preferred the user must have written the rule as well.
    """
    own_rule = not rule.function.__module__.startswith(_PACKAGE)
    return name not in ctx.rules.recovers and (own_rule or prefer != "speed")


def _writers(eqn: Eqn) -> int:
    """How many operators write the states of a single step into the tensors that its op reads them from."""
    x = eqn.inputs[0] if eqn.inputs else None
    return len(state_operands(eqn)) if x is not None and x.type.rank == 2 else 0


def _constant_bytes(graph: Graph) -> int:
    """The bytes of the constants of a graph and its bodies, each memory once."""
    sizes = {a.memory: a.array.nbytes for a in _constants(graph)}
    return sum(sizes.values())


def _constants(graph: Graph) -> list[Const]:
    constants = [a for eqn in graph.eqns for a in eqn.inputs if isinstance(a, Const) and a.array.dtype != object]
    return constants + [a for eqn in graph.eqns for body in eqn.bodies for a in _constants(body)]


def plain_microseconds(eqn: Eqn, machine: str = ANY_MACHINE) -> float:
    """About what one invoke of an equation takes, with the equations of its bodies once."""
    if keeps_state(eqn):
        return fused_microseconds(eqn, machine) + OPERATOR_US * _writers(eqn)
    if eqn.op.overwrites:
        return fused_microseconds(eqn, machine)
    first = eqn.inputs[0] if eqn.inputs else None
    sizes = () if first is None else first.type.shape[:-1]
    rows = prod(int(d) if is_known(d) else 1 for d in sizes)
    weights = {a.memory: a.array.nbytes for a in eqn.inputs if isinstance(a, Const) and a.type.rank > 1}
    a_byte = WEIGHT_US if rows == 1 else HOISTED_US
    inside = sum(plain_microseconds(inner, machine) for body in eqn.bodies for inner in body.eqns)
    return OPERATOR_US + a_byte * sum(weights.values()) * max(1, rows) + inside
