"""`Step`: one step of a loop as recover rules read it, its body simplified."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import substitute_graph
from jfuse.kernels.control import scan_parts
from jfuse.lowering.recover.algebra.forms import Dependence, concrete_size
from jfuse.lowering.recover.algebra.reader import ExpressionReader
from jfuse.lowering.recover.algebra.repeats import without_repeats
from jfuse.lowering.recover.algebra.view import BodyView
from jfuse.lowering.recover.masks.mask import unmasked
from jfuse.lowering.rules import need


class Step:
    """One step of a scan: `body` with constant operands put in and repeated equations removed.

    consts, carries, xs: the body's inputs: loop-invariant values, states, rows of the sequences. next_carries and ys:
    its results: the states after the step, and what is collected of each step. Where a mask decides whether a step
    counts, `mask` has it, and body and xs are without it; `whole` is the body with it.
    one_step: it is no loop in the source, but a single step with its states as inputs and results.
    """

    def __init__(self, eqn: Eqn, *, one_step: bool = False) -> None:
        self.eqn = eqn
        self.one_step = one_step
        self.whole = without_repeats(_with_constants(eqn))
        self.consts, self.carries, xs = (tuple(part) for part in scan_parts(self.whole.inputs, eqn.params))
        self.body, self.mask = unmasked(self.whole, self.carries, xs)
        self.xs = tuple(x for x in xs if self.mask is None or x is not self.mask.var)
        self.next_carries: Sequence[Atom] = self.body.outputs[: len(self.carries)]
        self.ys: Sequence[Atom] = self.body.outputs[len(self.carries) :]

    @cached_property
    def view(self) -> BodyView:
        """The body to read, with as many rows as the batch has; symbols in it are 2."""
        batches = [v.type.shape[0] for v in (*self.carries, *self.xs) if v.type.rank >= 1]
        size = next((int(b) for b in batches[:1] if is_known(b)), 2)
        return BodyView(self.body, concrete_size(batches[0], size) if batches else size, size)

    @property
    def dependence(self) -> Dependence:
        """The inputs in which each value is affine."""
        return self.view.dependence

    @property
    def reader(self) -> ExpressionReader:
        """The reader of values as expressions of the step's carries, inputs and constants."""
        return self.view.reader

    def place(self, var: Var) -> int:
        """The position of an input of the body, which is that of the scan's operand."""
        return self.body.inputs.index(var)


def step_input(xs: Sequence[Var]) -> Var:
    """The only step input; refuses where there are others, or of another type."""
    need(len(xs) == 1, "one_step_input", want=1, got=len(xs))
    (x,) = xs
    need(x.type.dtype is DType.f32, "step_input_dtype", want="f32", got=str(x.type))
    need(x.type.rank == 2, "step_input_rank", want=2, got=str(x.type))
    return x


def _with_constants(eqn: Eqn) -> Graph:
    """The body with loop-invariant operands that are constant put in as constants."""
    (body,) = eqn.bodies
    invariant = range(eqn.params["consts"])
    known = {body.inputs[i]: a for i in invariant if isinstance(a := eqn.inputs[i], Const)}
    return substitute_graph(body, known)
