"""Whether a fused op is the fastest form of a recurrence, by what both forms were measured to take in LiteRT."""

from __future__ import annotations

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Const, Eqn, Graph
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.op import TflOp
from jfuse.lowering.rules import need
from jfuse.opaque_ops.state_operands import keeps_state
from jfuse.passes.context import Context
from jfuse.passes.scans.to_loops.loop_cost import OPEN_LENGTH, Form, LoopSize, fastest
from jfuse.passes.scans.to_loops.scan_to_loops import scan_to_loops

# Fused LSTMs of 16 to 128 units, batch 1 (bench/recurrent.py): 0.75, 1.17, 2.76 and 8.5 us a step.
STEP_US = 0.62  # a step of a fused op
PRODUCT_US = 8.5e-5  # a product of a weight and a number; XNNPACK, which does not take fused ops, needs less
HOISTED_US = 5e-6  # a byte of weights and a row, in a product for all steps at once before the loop


def need_faster(body: Graph, replacement: Graph, ctx: Context) -> None:
    """Refuse the fusion where the loop that the body would become takes less time than the fused ops."""
    fused = sum(fused_microseconds(eqn) for eqn in replacement.eqns if keeps_state(eqn))
    if not fused:
        return
    loop = loop_microseconds(body, ctx)
    want, got = f"at most {loop:.0f} us, as the loop takes", f"about {fused:.0f} us"
    need(fused <= loop, "loop_is_faster", want=want, got=got)


def fused_microseconds(eqn: Eqn) -> float:
    """About what one invoke of a fused op over a sequence takes; 0 for ops of a single step."""
    x = eqn.inputs[0]
    if x is None or x.type.rank != 3 or not isinstance(eqn.op, TflOp):
        return 0.0
    time = 0 if eqn.params.get("time_major") else 1
    steps, rows = (int(d) if is_known(d) else None for d in (x.type.shape[time], x.type.shape[1 - time]))
    weights = sum(a.array.size for a in eqn.inputs if isinstance(a, Const) and a.type.rank == 2)
    return (OPEN_LENGTH if steps is None else steps) * (STEP_US + PRODUCT_US * weights * (rows or 1))


def loop_microseconds(body: Graph, ctx: Context) -> float:
    """About what the loops of a graph take in the form that `scan_to_loops` would choose, with the products before."""
    sizes: list[LoopSize] = []
    total = 0.0

    def choose(size: LoopSize, room: int) -> Form:
        nonlocal total
        form = fastest(size, room)
        total += size.microseconds(form)
        sizes.append(size)
        return form

    scan_to_loops(body, Context(ctx.rules), choose)
    consts = {a for eqn in all_eqns(body) for a in eqn.inputs if isinstance(a, Const) and a.type.rank == 2}
    hoisted = sum(c.array.nbytes for c in consts) - sum(size.weights for size in sizes)
    calls = max((size.steps * size.rows for size in sizes), default=0)
    return total + HOISTED_US * max(0, hoisted) * calls
