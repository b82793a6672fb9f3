"""`BodyView`: a loop body with the dependences of its values; cuts turn a value into an input of the body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import TensorType
from jfuse.ir.walk import live_eqns, substitute_graph
from jfuse.lowering.recover.algebra.expressions import Expr, Leaf, canonical, clamps
from jfuse.lowering.recover.algebra.forms import AffineForm, Dependence, linear_forms
from jfuse.lowering.recover.algebra.reader import ExpressionReader
from jfuse.lowering.recover.algebra.reshaped import reshaped
from jfuse.lowering.rule_tools.case_distinctions import place_of, run_time_switches
from jfuse.lowering.rules import need


class BodyView:
    """A body as expressions of its inputs. `size`: what each symbol is taken as, so that the batch has `rows`."""

    def __init__(self, body: Graph, rows: int, size: int) -> None:
        self.body = body
        self.rows = rows
        self.size = size

    @cached_property
    def dependence(self) -> Dependence:
        """The inputs in which each value is affine."""
        return Dependence(self.body)

    @cached_property
    def reader(self) -> ExpressionReader:
        """The reader of values as expressions of the graph's inputs and constants."""
        return ExpressionReader(self.body, self.dependence, self.size)

    def read(self, atom: Atom) -> Expr:
        """The expression of a value, with its activations and clamps recognized."""
        return canonical(self.reader.read(atom))

    def cut(self, var: Var, like: TensorType) -> tuple[BodyView, Var]:
        """The body with a value as one more input, and that input: what is computed from the value is read from it.

        like: a type with the batch in front and as many elements, which the input gets if the value's is another.
        """
        in_front = var.type.rank > 1 and same(var.type.shape[0], like.shape[0]) is True
        cut_input = Var(var.type if in_front else like)
        shaping = trace_graph(lambda x: reshaped(x, var.type.shape), [cut_input])
        body = substitute_graph(self.body, {var: shaping.outputs[0]})
        body = replace(body, inputs=(*body.inputs, cut_input), eqns=(*shaping.eqns, *body.eqns))
        return BodyView(body, self.rows, self.size), cut_input

    def units(self, var: Var) -> int:
        """The number of elements of a value for each row of the batch."""
        return self.reader.size(var) // self.rows

    def behind(self, leaf: Leaf) -> frozenset[Var]:
        """The inputs that a leaf depends on."""
        return self.dependence.inputs_behind([leaf.var])

    def forms(self, leaves: Sequence[Leaf], sources: Sequence[Var]) -> Mapping[Var, AffineForm]:
        """The forms of what leaves are elements of, over those of the inputs that they depend on."""
        needed = frozenset().union(*(self.behind(leaf) for leaf in leaves))
        values = tuple(dict.fromkeys(leaf.var for leaf in leaves))
        return linear_forms(self.body, values, [s for s in sources if s in needed])

    def computed(self, atom: Atom) -> tuple[Eqn, ...]:
        """The equations behind a value that are not affine in the inputs, the last one first."""
        inputs = frozenset(self.body.inputs)
        eqns = live_eqns(self.body, [atom])
        return tuple(e for e in reversed(eqns) if any(not self.dependence.of(o) <= inputs for o in e.outputs))


def refuse_other_switches(body: Graph, read: Sequence[tuple[BodyView, Expr]]) -> None:
    """Raise unless every case distinction of a body is one of the clamps in what was read.

    Sampling could miss a case; a clamp is known from structure.
    """
    explained: set[Var] = set()
    for view, expr in read:
        for clamp in clamps(expr):
            explained.update(*(view.reader.made_as(applied) for applied in clamp.spelled))
    live = replace(body, eqns=live_eqns(body, body.outputs))
    for _, eqn in run_time_switches(live):
        need(
            explained.intersection(eqn.outputs),
            "unexplained_switch",
            want="no case distinction but the cell's own clips and activations",
            got=place_of(eqn),
        )
