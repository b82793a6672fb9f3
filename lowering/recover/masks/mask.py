"""Masked steps: the step of a loop without the selects that keep states where a mask is not set."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import is_used, live_eqns, producers, substitute_graph
from jfuse.kernels import ops
from jfuse.lowering.recover.algebra.forms import concrete_size, concrete_zeros
from jfuse.lowering.recover.masks.settled import settled
from jfuse.lowering.rule_tools.broadcast_constants import Known
from jfuse.lowering.rules import Proposal, need

_SELECTS = (ops.select, ops.select_v2)
_MOST_PATTERNS = 6  # rows up to which every pattern of a mask is tried; of more rows, one at a time


@dataclass(frozen=True)
class Mask:
    """A step input that decides for each row of the batch whether the step counts.

    var: bool[b] or bool[b,1], or floats of 0 and 1. counts: its value where the step counts. fills: the values
    of collected results where the step does not count, by position among the results of the body: a carry, a value
    that no step changes, or a constant. The carries keep their values there.
    """

    var: Var
    counts: bool
    fills: Mapping[int, Atom]


def unmasked(body: Graph, carries: Sequence[Var], xs: Sequence[Var]) -> tuple[Graph, Mask | None]:
    """Remove the mask: return the body that computes the unmasked step, and the mask that decides whether it counts.

    The body as it is, and None, unless every carry and every collected result is selected by one and the same mask, or
    blended by it: `old * mask + new * (1 - mask)`, which is a choice where the mask is 0 or 1, as `fuse` makes sure.
    """
    stripped, mask = _selected(body, carries, xs)
    blends = () if mask is not None else (_blended(body, carries, xs, x) for x in xs)
    return next((blend for blend in blends if blend is not None), (stripped, mask))


def blend_places(body: Graph, carries: Sequence[Var], xs: Sequence[Var]) -> set[int]:
    """The step inputs, by their numbers, each of which is a mask that blends old and new states."""
    return {i for i, x in enumerate(xs) if _blended(body, carries, xs, x) is not None}


def _blended(body: Graph, carries: Sequence[Var], xs: Sequence[Var], var: Var) -> tuple[Graph, Mask] | None:
    """The body without a mask, where one of the values 0 and 1, or False and True, keeps every carry as it is."""
    if not carries or not (var.type.dtype.is_float or var.type.dtype is DType.bool) or not _is_column(var):
        return None
    at = {counts: settled(body, {var: np.asarray(not counts, var.type.dtype.numpy)}) for counts in (True, False)}
    keeping = [c for c, (graph, _) in at.items() if all(map(operator.is_, graph.outputs[: len(carries)], carries))]
    if len(keeping) != 1:
        return None
    (counts,) = keeping
    (identity, known), (stripped, _) = at[counts], at[not counts]
    others = dict(enumerate(identity.outputs[len(carries) :], len(carries)))
    fills = _with_constants(others, known)
    return None if is_used(stripped, var) or _is_changing(fills, body, xs) else (stripped, Mask(var, counts, fills))


def _selected(body: Graph, carries: Sequence[Var], xs: Sequence[Var]) -> tuple[Graph, Mask | None]:
    made = producers(body)
    selects = [made.get(atom) if isinstance(atom, Var) else None for atom in body.outputs]
    chosen = [eqn for eqn in selects if eqn is not None and eqn.op in _SELECTS]
    conditions = {eqn.inputs[0] for eqn in chosen}
    new_first = {eqn.inputs[2] is v for eqn, v in zip(chosen, carries, strict=False) if v in eqn.inputs[1:]}
    keeps = sum(v in eqn.inputs[1:] for eqn, v in zip(chosen, carries, strict=False))
    if len(chosen) < len(selects) or keeps < len(carries) or len(new_first) != 1:
        return body, None
    rows = {_rows_of(condition, body, xs) for condition in conditions}
    if len(rows) != 1:
        return body, None
    ((var, positive),) = rows
    (first,) = new_first
    new, other = (1, 2) if first else (2, 1)
    results = tuple(_atom(eqn, new) for eqn in chosen)
    others = {i: _atom(eqn, other) for i, eqn in enumerate(chosen) if i >= len(carries)}
    fills = _with_constants(others, settled(body, {})[1])
    stripped = replace(body, eqns=live_eqns(body, results), outputs=results)
    if var is None or is_used(stripped, var) or _is_changing(fills, body, xs):
        return body, None
    return stripped, Mask(var, positive is first, fills)


def _with_constants(fills: Mapping[int, Atom], known: Known) -> dict[int, Atom]:
    """Replace fills by constants where the step computes a constant, such as zeros of the shape of a state."""
    return {i: Const(known[a]) if isinstance(a, Var) and a in known else a for i, a in fills.items()}


def _is_changing(fills: Mapping[int, Atom], body: Graph, xs: Sequence[Var]) -> bool:
    return any(isinstance(a, Var) and (a not in body.inputs or a in xs) for a in fills.values())


def with_mask(proposal: Proposal, mask: Mask, inputs: Sequence[Var], carries: Sequence[Var]) -> Proposal:
    """Add the mask, and the fills of masked steps, to the proposal that was read from the unmasked step.

    Further operands: `mask`; `held`, the start of a second copy of h; `fill`, the element of a masked step in y.
    results: "held" for the last value of that copy; "y_h", "y_held" (the value after each step) and "y_fill" for "y".
    attributes: `counts`, the value of the mask where a step counts.
    """
    operands = {**proposal.operands, "mask": inputs.index(mask.var)}
    constants = dict(proposal.constants)
    names = list(proposal.attributes["results"])
    copies: dict[Atom, str] = {}
    for number, carry in enumerate(carries):
        place = inputs.index(carry)
        if names[number] == "h" and place != operands["h"]:
            names[number] = "held"
            need(operands.setdefault("held", place) == place, "masked_output", want="one copy of h", got="several")
        copies[carry] = names[number]
    for number, other in mask.fills.items():
        need(names[number] == "y", "masked_output", want="h of every step", got=names[number])
        role = copies.get(other, "fill")
        need(role != "c", "masked_output", want="h or a constant where the mask is not set", got="c")
        names[number] = f"y_{role}"
        if role == "fill" and isinstance(other, Const):
            constants["fill"] = other.array
        elif role == "fill":
            operands["fill"] = inputs.index(other)
    need(names.count("y_fill") <= 1, "masked_output", want="one collected result", got=names)
    attributes = {**proposal.attributes, "results": tuple(names), "counts": mask.counts}
    return Proposal(operands, constants, attributes)


def _atom(eqn: Eqn, place: int) -> Atom:
    atom = eqn.inputs[place]
    assert atom is not None, "a select has no optional operands"
    return atom


def _rows_of(condition: Atom | None, body: Graph, xs: Sequence[Var]) -> tuple[Var | None, bool]:
    """The step input whose rows, or whose negated rows, a condition is, and which of the two."""
    body = _with_known_sizes(body)
    eqns = live_eqns(body, [condition]) if isinstance(condition, Var) else ()
    atoms = [condition, *(a for eqn in eqns for a in eqn.inputs)]
    read = {a for a in atoms if isinstance(a, Var) and a in body.inputs}
    if len(read) != 1 or not isinstance(condition, Var):
        return None, True
    (var,) = read
    if var not in xs or var.type.dtype is not DType.bool or not _is_column(var):
        return None, True
    graph = Graph("condition", (var,), eqns, (condition,))
    agrees: set[Any] = {_agreement(graph, pattern) for pattern in _patterns(concrete_zeros(var.type, 2))}
    return (var, agrees.pop()) if agrees in ({True}, {False}) else (None, True)


def _with_known_sizes(body: Graph) -> Graph:
    """The body with the sizes that it computes as constants, each symbol taken as 2: they are of whatever tensor."""
    sizes = {
        out: Const(np.array([concrete_size(d, 2) for d in out.value.ravel()], np.int32).reshape(out.value.shape))
        for eqn in body.eqns
        for out in eqn.outputs
        if out.value is not None and out.type.dtype is DType.i32
    }
    return substitute_graph(body, dict(sizes))


def _is_column(var: Var) -> bool:
    return var.type.rank == 1 or (var.type.rank == 2 and var.type.shape[1] == 1)


def _agreement(graph: Graph, pattern: np.ndarray) -> bool | None:
    """Whether each row of the result is that row of the pattern (True) or its negation (False) throughout."""
    (result,) = evaluate(graph, [pattern])
    values = np.asarray(result)
    rows = pattern.reshape(-1)
    if values.shape[:1] != rows.shape:
        return None
    wanted = np.broadcast_to(rows.reshape(-1, *[1] * (values.ndim - 1)), values.shape)
    return True if (values == wanted).all() else False if (values != wanted).all() else None


def _patterns(like: np.ndarray) -> Iterator[np.ndarray]:
    """Values of a mask that tell its rows apart: all there are, or each row alone."""
    rows = like.size
    if rows <= _MOST_PATTERNS:
        for bits in itertools.product([False, True], repeat=rows):
            yield np.array(bits).reshape(like.shape)
        return
    yield np.zeros_like(like)
    for row in range(rows):
        yield (np.arange(rows) == row).reshape(like.shape)
        yield (np.arange(rows) != row).reshape(like.shape)
