"""Masks of composites: how they are padded, by construction or because the user promises it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import live_eqns, producers
from jfuse.lowering.recover.masks.padding import Padding, padding_of
from jfuse.passes.context import Context
from jfuse.proof.samples import Padded
from jfuse.records.conversion import PaddingPromise


@dataclass
class Masks:
    """The masks among the operands of one composite.

    eqns: the equations before it. inputs: those of the signature's graph, None within a body, where the user's word
    could not be kept in verification. asked: what the rule was told, by position of the operand.
    """

    ctx: Context
    atoms: Sequence[Atom]
    eqns: Sequence[Eqn]
    inputs: Sequence[Var] | None
    asked: dict[int, Padded] = field(default_factory=dict)
    _promises: list[PaddingPromise] = field(default_factory=list)

    def side_of(self, place: int, axis: int, counts: bool = True) -> str | None:
        """The side on which operand `place` is padded along an axis; None where it may have gaps.

        counts: its value where a step counts.
        """
        made = producers(self.eqns)
        padding = padding_of(self.atoms[place], axis, made)
        side = padding.side
        if side is None and self.ctx.forms.padding is not None and self.inputs is not None:
            in_numbers = DType.bool not in (self.atoms[place].type.dtype, padding.root.type.dtype)
            if in_numbers and padding.root not in self.inputs:
                return None  # what a model computes may be any number: the weights of an attention, for one
            side = padding.promised(self.ctx.forms.padding, counts)
            promise = self._promise(padding, counts, self.ctx.forms.padding, self.inputs)
            self._promises.append(replace(promise, in_numbers=in_numbers))
        if side is not None:
            self.asked[place] = Padded(axis, side)
        return side

    def keep(self) -> None:
        """Report the promises: the composite was replaced by what relies on them."""
        report = self.ctx.report
        for promise in self._promises:
            if str(promise) not in report.assumptions:
                report.assumptions.append(str(promise))
                report.promises.append(promise)

    def _promise(self, padding: Padding, counts: bool, side: str, inputs: Sequence[Var]) -> PaddingPromise:
        known = Graph("mask", tuple(inputs), tuple(self.eqns), (padding.root,))
        eqns = live_eqns(known, known.outputs)
        read = {a for a in (*known.outputs, *(a for eqn in eqns for a in eqn.inputs)) if isinstance(a, Var)}
        graph = Graph("mask", tuple(v for v in inputs if v in read), eqns, known.outputs)
        made_by = producers(graph).get(padding.root) if isinstance(padding.root, Var) else None
        source = "an input" if made_by is None else str(made_by.source)
        return PaddingPromise(side, padding.axis, graph, source, counts ^ padding.negated)
