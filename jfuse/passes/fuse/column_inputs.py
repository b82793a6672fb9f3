"""Step inputs that repeat one column, as masks tiled to the width of the states do: the scan is given the column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known, same
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array

_Chain = tuple[Var, tuple[Eqn, ...]]
"""A sequence of columns, and what makes the step input of it: what repeats them, and works on each element after it."""


def with_columns(eqn: Eqn, made_by: Mapping[Var, Eqn]) -> Eqn:
    """The scan with a sequence of columns in place of each that only repeats one; its step repeats them.

    made_by: what makes the scan's operands.
    """
    (body,) = eqn.bodies
    first = eqn.params["consts"] + eqn.params["carries"]
    chains = {i: c for i, a in enumerate(eqn.inputs) if i >= first and (c := _chain(a, made_by)) is not None}
    if not chains:
        return eqn

    def step(*args: Array) -> Sequence[Any]:
        return evaluate(body, [_repeated(a, chains[i][1]) if i in chains else a for i, a in enumerate(args)])

    rows = {i: _row(column.type) for i, (column, _) in chains.items()}
    inputs = [rows.get(i, v.type) for i, v in enumerate(body.inputs)]
    operands = tuple(chains[i][0] if i in chains else a for i, a in enumerate(eqn.inputs))
    return replace(eqn, inputs=operands, bodies=(trace_graph(step, inputs, body.name),))


def _chain(atom: Atom | None, made_by: Mapping[Var, Eqn]) -> _Chain | None:
    after: list[Eqn] = []
    while isinstance(atom, Var) and (eqn := made_by.get(atom)) is not None and eqn.op.is_kernel:
        if _repeats_columns(eqn):
            assert isinstance(eqn.inputs[0], Var)
            return eqn.inputs[0], (eqn, *reversed(after))
        variables = [a for a in eqn.inputs if isinstance(a, Var)]
        fixed = [a for a in eqn.inputs if isinstance(a, Const)]
        if not eqn.op.elementwise or len(variables) != 1 or any(a.array.size > 1 for a in fixed):
            return None
        after.append(eqn)
        (atom,) = variables
    return None


def _repeats_columns(eqn: Eqn) -> bool:
    """Whether this repeats the one column of [steps, rows, 1] along its last axis alone."""
    column = eqn.inputs[0]
    if eqn.op.moves != "repeats" or not isinstance(column, Var) or column.type.rank != 3:
        return False
    *before, last = column.type.shape
    *after, columns = eqn.outputs[0].type.shape
    return same(last, 1) is True and is_known(columns) and len(after) == 2 and _are_same(before, after)


def _are_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(same(*pair) is True for pair in zip(one, other, strict=True))


def _row(sequence: TensorType) -> TensorType:
    return replace(sequence, shape=sequence.shape[1:])


def _repeated(column: Array, chain: Sequence[Eqn]) -> Array:
    """One row of what the chain makes of a row of its sequence."""
    repeats, *others = chain
    value = ops.tile(column, np.array([1, repeats.outputs[0].type.shape[2]], np.int32))
    for eqn in others:
        (value,) = eqn.op.run([value if isinstance(a, Var) else a for a in eqn.inputs], eqn.params, ())
    return value
