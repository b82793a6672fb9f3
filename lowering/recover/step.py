"""What recover rules look at: one step of a loop, its body made simple, and readings of it that rules share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.walk import substitute_graph
from jfuse.kernels.control import scan_parts
from jfuse.lowering.recover.forms import Dependence
from jfuse.lowering.recover.reader import Reader
from jfuse.lowering.recover.repeats import without_repeats


class Step:
    """One step of a scan: `body` with constant operands put in and repeated equations removed.

    consts, carries, xs: the body's inputs: loop-invariant values, states, rows of the sequences. next_carries and ys:
    its results: the states after the step, and what is collected of each step.
    """

    def __init__(self, eqn: Eqn) -> None:
        self.eqn = eqn
        self.body: Graph = without_repeats(_with_constants(eqn))
        parts = (tuple(part) for part in scan_parts(self.body.inputs, eqn.params))
        self.consts, self.carries, self.xs = parts
        self.next_carries: Sequence[Atom] = self.body.outputs[: len(self.carries)]
        self.ys: Sequence[Atom] = self.body.outputs[len(self.carries) :]

    @cached_property
    def dependence(self) -> Dependence:
        """Which values are affine in what."""
        return Dependence(self.body)

    @cached_property
    def reader(self) -> Reader:
        """Reads values as expressions, with as many rows as the batch has; with two where that is open."""
        batches = [v.type.shape[0] for v in (*self.carries, *self.xs) if v.type.rank >= 1]
        known = [int(b) for b in batches[:1] if is_known(b)]
        return Reader(self.body, self.dependence, known[0] if known else 2)

    def place(self, var: Var) -> int:
        """The position of an input of the body, which is that of the scan's operand."""
        return self.body.inputs.index(var)


def _with_constants(eqn: Eqn) -> Graph:
    """The body with loop-invariant operands that are constant put in as constants."""
    (body,) = eqn.bodies
    invariant = range(eqn.params["consts"])
    known = {body.inputs[i]: a for i in invariant if isinstance(a := eqn.inputs[i], Const)}
    return substitute_graph(body, known)
