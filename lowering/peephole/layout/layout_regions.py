"""Regions between transposes compute in the other layout, where that leaves fewer transposes: NCHW becomes NHWC.

A region is what can be reached from TRANSPOSEs by one permutation through operators that compute in any layout. Looked
at as a whole, as residual connections let no single TRANSPOSE pass. What brings the channels first also goes behind a
region where that needs as many, so that biases and activations reach the convolution before it; other permutations stay
then, as rules for recurrences and attention look for them.

So it is with axes of size 1, which convolutions over sequences bring in and leave out again (layouts.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import Trace, at_source, recording
from jfuse.ir.walk import producers, users
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front, from_front
from jfuse.kernels.core.op import TflOp, static_value
from jfuse.lowering.peephole.arithmetic.weighted import WeightedEqn
from jfuse.lowering.peephole.layout.layouts import Layout, Widened, layouts_in
from jfuse.lowering.peephole.layout.transpose import permutation
from jfuse.lowering.peephole.pattern import form
from jfuse.lowering.peephole.registry import Match, peephole
from jfuse.lowering.rules import need

_PADS = frozenset({ops.pad, ops.padv2, ops.mirror_pad})
_OTHER_SLICES = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
_OF_ROWS = frozenset({ops.softmax, ops.log_softmax})


def fewest_moves(graph: Graph) -> Graph:
    """The graph with regions in another layout; the same object where there is none that is better so."""
    for layout in layouts_in(graph):
        rearrangement = _Rearrangement(graph, layout)
        better = [eqn for region in rearrangement.regions() if rearrangement.is_better(region) for eqn in region]
        changed = rearrangement.rewritten(better) if better else None
        if changed is not None:
            return changed  # what else there is looks different now
    return graph


@dataclass
class _Rearrangement:
    """A graph, and one layout whose moves are to go. A tensor of a region is `layout.old` of its new one."""

    graph: Graph
    layout: Layout
    made_by: Mapping[Var, Eqn] = field(init=False)
    readers: Mapping[Var, list[Eqn]] = field(init=False)
    results: frozenset[Var] = field(init=False)
    moved: Mapping[Var, Atom] = field(init=False)

    def __post_init__(self) -> None:
        self.made_by, self.readers = producers(self.graph), users(self.graph)
        self.results = frozenset(a for a in self.graph.outputs if isinstance(a, Var))
        self.moved = {
            e.outputs[0]: e.inputs[0] for e in self.graph.eqns if self.layout.gives(e) and e.inputs[0] is not None
        }

    def regions(self) -> Iterable[list[Eqn]]:
        """The equations that depend on such a move and can compute in any layout, by what joins them."""
        parent: dict[Any, Any] = {}

        def root(item: Any) -> Any:
            while parent.setdefault(item, item) is not item:
                parent[item] = item = parent[parent[item]]
            return item

        members: list[Eqn] = []
        inside: set[Var] = set()
        for eqn in self.graph.eqns:
            known = [a for a in eqn.inputs if isinstance(a, Var) and (a in inside or a in self.moved)]
            if not known or not _works_anywhere(eqn, self.layout):
                continue
            members.append(eqn)
            for atom in (*known, *eqn.outputs[1:]):
                parent[root(atom)] = root(eqn.outputs[0])
            inside.update(out for out in eqn.outputs if out.type.rank == self.layout.rank)
        groups: dict[Any, list[Eqn]] = {}
        for eqn in members:
            groups.setdefault(root(eqn.outputs[0]), []).append(eqn)
        return groups.values()

    def is_better(self, region: Sequence[Eqn]) -> bool:
        """Whether there would be fewer moves, and not one that moves elements for several that do not."""
        moves, transposes = self.gain(region)
        return moves >= self.layout.least and transposes >= 0

    def gain(self, region: Sequence[Eqn]) -> tuple[int, int]:
        """How many moves there would be less, and how many of those that move elements."""
        layout, inside = self.layout, {out for e in region for out in e.outputs}
        operands = {a for e in region for a in e.inputs if isinstance(a, Var) and a not in inside}
        moves = transposes = 0
        for var in (*operands, *inside):
            if var.type.rank != layout.rank:
                continue
            gain = self._gain_inside(var, inside, operands) if var in inside else self._gain_entering(var, inside)
            moves += gain
            transposes += 0 if layout.renames(var.type.shape) else gain
        return moves, transposes

    def _gain_entering(self, var: Var, inside: set[Var]) -> int:
        """Moves less before a region, of a tensor that it reads."""
        if var in self.moved:
            return int(self._is_read_by(var, inside))
        return -int(not self.layout.is_free(self.made_by.get(var)))

    def _gain_inside(self, var: Var, inside: set[Var], operands: set[Var]) -> int:
        """Moves less behind a region, of a tensor that it makes.

        operands: what the region reads from outside. A move of this tensor among them needs it in this layout.
        """
        outside = [e for e in self.readers.get(var, ()) if not inside.intersection(e.outputs)]
        again = [e for e in outside if self.layout.gives(e) and operands.intersection(e.outputs)]
        back = [e for e in outside if e not in again and (self.layout.undoes(e) or self.layout.absorbs(e))]
        return sum(map(self.layout.undoes, back)) - (len(back) < len(outside) or var in self.results)

    def _is_read_by(self, var: Var, inside: set[Var]) -> bool:
        return var not in self.results and all(inside.intersection(e.outputs) for e in self.readers[var])

    def rewritten(self, region: Sequence[Eqn]) -> Graph | None:
        """The graph with a region in the other layout; None where sizes would have to be assumed equal for it."""
        inside = {out for e in region for out in e.outputs}
        new: dict[Var, Any] = dict(self.moved)
        with recording() as trace:
            for eqn in self.graph.eqns:
                if not inside.intersection(eqn.outputs):
                    trace.record(eqn)
                    continue
                with at_source(eqn.source):
                    self._record(trace, eqn, new)
        return None if trace.sizes else replace(self.graph, eqns=tuple(trace.eqns))

    def _record(self, trace: Trace, eqn: Eqn, new: dict[Var, Any]) -> None:
        """The equation in the other layout, and what it gave before as a move of that."""
        operands = [self._operand(a, new) if _is_laid_out(eqn, i) else a for i, a in enumerate(eqn.inputs)]
        results = _anywhere(eqn, operands, self.layout)
        # A reduction that drops axes leaves the others in the same order in both layouts.
        if eqn.outputs[0].type.rank != self.layout.rank:
            (last,) = trace.take_back(len(trace.eqns) - 1)
            trace.record(replace(last, outputs=eqn.outputs))
            return
        for out, result in zip(eqn.outputs, results, strict=True):
            new[out] = result
            self.layout.old(result)  # dead where all readers are in the region
            (last,) = trace.take_back(len(trace.eqns) - 1)
            trace.record(replace(last, outputs=(out,)))

    def _operand(self, atom: Atom | None, new: dict[Var, Any]) -> Any:
        if isinstance(atom, Const):
            array = atom.array
            wide = array.reshape((1,) * (self.layout.rank - array.ndim) + array.shape)
            return atom if array.ndim == 0 else self.layout.constant(wide)
        if not isinstance(atom, Var) or atom.type.rank == 0:
            return atom
        if atom not in new:
            new[atom] = self.layout.new(atom)
        return new[atom]


def _works_anywhere(eqn: Eqn, layout: Layout) -> bool:
    """Whether an equation on tensors of that rank computes the same in any layout, its constants and axes moved."""
    if not eqn.outputs or eqn.effects or eqn.bodies or not isinstance(eqn.op, TflOp):
        return False
    if len(eqn.outputs) != 1 and eqn.op is not ops.split:
        return False
    atoms = [a for a in (*eqn.inputs, *eqn.outputs) if a is not None]
    if any(a.type.quantization is not None for a in atoms):
        return False
    x, rank = eqn.inputs[0] if eqn.inputs else None, layout.rank
    if x is None or eqn.outputs[0].value is not None:
        return False
    if not all(layout.fits(a.type.shape) for a in atoms if isinstance(a, Var) and a.type.rank == rank):
        return False
    if eqn.op.elementwise:
        return _is_broadcast(eqn, rank)
    if not layout.moves_axes:
        return False
    if eqn.op is ops.split:
        return eqn.outputs[0].type.rank == rank and isinstance(x, Const)
    return x.type.rank == rank and _moves_with_constants(eqn, layout)


def _moves_with_constants(eqn: Eqn, layout: Layout) -> bool:
    """Whether what an equation does along axes is constant, so that it can be done along others."""
    rank = layout.rank
    if eqn.op is ops.concatenation:
        return all(a is not None and a.type.rank == rank for a in eqn.inputs)
    if eqn.op is ops.gather:
        return eqn.params["batch_dims"] == 0 and eqn.inputs[1] is not None and eqn.inputs[1].type.rank == 1
    if eqn.op in _PADS:
        return isinstance(eqn.inputs[1], Const)
    if eqn.op is ops.strided_slice:
        plain = not any(eqn.params[name] for name in _OTHER_SLICES)
        return plain and all(isinstance(a, Const) and len(a.array) == rank for a in eqn.inputs[1:])
    if isinstance(layout, Widened) and (eqn.op in _OF_ROWS or eqn.params.get("keep_num_dims")):
        return True
    return "keep_dims" in eqn.params and _keeps_order(eqn, layout)


def _is_broadcast(eqn: Eqn, rank: int) -> bool:
    """Whether operands and result are of that rank, or scalars, or constants that are broadcast to it."""
    ranks = {a.type.rank for a in eqn.inputs if isinstance(a, Var)}
    if eqn.outputs[0].type.rank != rank or not ranks <= {0, rank}:
        return False
    of_rank = all(a is not None and a.type.rank == rank for a in eqn.inputs)
    return of_rank or eqn.op is not ops.select  # a vector of conditions chooses rows there


def _keeps_order(eqn: Eqn, layout: Layout) -> bool:
    """Whether a reduction along constant axes leaves the others in the order that they have in the other layout."""
    axes = None if eqn.inputs[1] is None else static_value(eqn.inputs[1])
    if axes is None:
        return False
    left = [layout.place(a) for a in range(layout.rank) if a not in axes_from_front(axes, layout.rank)]
    return bool(eqn.params["keep_dims"]) or left == sorted(left)


def _is_laid_out(eqn: Eqn, index: int) -> bool:
    """Whether an operand is laid out as the result is: of all but paddings, what is padded with, axes and weights."""
    if eqn.op is ops.split:
        return index == 1
    return index == 0 or eqn.op.elementwise or eqn.op is ops.concatenation


def _anywhere(eqn: Eqn, operands: Sequence[Any], layout: Layout) -> Sequence[Any]:
    """The results of the equation on operands in the other layout."""
    params, rank = dict(eqn.params), layout.rank
    places = [layout.place(a) for a in range(rank)]
    if eqn.op in (ops.concatenation, ops.gather):
        params["axis"] = places[from_front(params["axis"], rank)]
    elif eqn.op in _PADS:
        amounts = np.zeros((operands[0].ndim, 2), operands[1].array.dtype)
        amounts[places] = operands[1].array
        operands = [operands[0], amounts, *operands[2:]]
    elif eqn.op is ops.split:
        operands = [np.asarray(places[from_front(int(operands[0].array), rank)], np.int32), operands[1]]
    elif eqn.op is ops.strided_slice:
        bounds = [np.full(operands[0].ndim, default, np.int32) for default in (0, 0, 1)]
        for moved, bound in zip(bounds, operands[1:], strict=True):
            moved[places] = bound.array
        whole = sum(1 << i for i in range(operands[0].ndim) if i not in places)
        for name in ("begin_mask", "end_mask"):
            params[name] = whole | sum(1 << place for axis, place in enumerate(places) if params[name] >> axis & 1)
        operands = [operands[0], *bounds]
    elif "keep_dims" in params:
        axes = [places[a] for a in axes_from_front(static_value(operands[1]), rank)]
        if not params["keep_dims"]:
            axes += [a for a in range(operands[0].ndim) if a not in places]
        operands = [operands[0], np.array(sorted(axes), np.int32), *operands[2:]]
    return eqn.op.run(operands, params, ())


dense = form(WeightedEqn.of, ops.fully_connected)


@peephole(lambda x: dense(ops.transpose(x, ...).named("turned").shared()).named("rows"))
def rows_of_transpose(match: Match, x: Atom, turned: Eqn, rows: WeightedEqn) -> Any:
    """FULLY_CONNECTED(TRANSPOSE(x), w) = FULLY_CONNECTED(x, w with its columns moved), where rows are whole images."""
    need(not match.eqn.params["keep_num_dims"], "rows")
    need(isinstance(rows.weights, Const) and match.view.readers(rows.weights) == 1, "own_weights")
    assert isinstance(rows.weights, Const)
    perm, weights = permutation(turned), rows.weights.array
    need(perm[0] == 0, "batch_stays")
    sizes = [int(d) if is_known(d) else 0 for d in turned.outputs[0].type.shape[1:]]
    # XNNPACK leaves rows that end within an axis to the slower kernel.
    need(int(np.prod(sizes)) == weights.shape[1], "rows_of_whole_images")
    moved = weights.reshape(len(weights), *sizes).transpose(0, *(1 + np.argsort(perm[1:])))
    return ops.fully_connected(x, moved.reshape(weights.shape), rows.bias, **match.eqn.params)
