"""Reads open sizes before the loop, so that a size taken from one state does not tie other recurrences to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.graph import Atom, Eqn, Var
from jfuse.ir.trace import as_atom
from jfuse.ir.types import DType
from jfuse.ir.walk import live_eqns
from jfuse.lowering.rule_tools.shape_tensors import size_tensor


def with_sizes_outside(eqn: Eqn) -> Eqn:
    """A scan whose step gets the sizes that it reads from shapes as constants of the loop; the same object without any.

    They are recorded in the active trace. A size that no operand of the scan has stays in the step.
    """
    (body,) = eqn.bodies
    sources = tuple(a for a in eqn.inputs if isinstance(a, Var))
    size_inputs: dict[Var, Atom] = {}
    for size in (out for e in live_eqns(body, body.outputs) for out in e.outputs):
        if (dim := _open_size(size)) is not None:
            try:
                size_inputs[size] = as_atom(size_tensor(dim, sources))
            except LowerError:
                continue
    if not size_inputs:
        return eqn
    step = replace(
        body, inputs=(*size_inputs, *body.inputs), eqns=tuple(e for e in body.eqns if e.outputs[0] not in size_inputs)
    )
    params = {**eqn.params, "consts": eqn.params["consts"] + len(size_inputs)}
    return replace(eqn, inputs=(*size_inputs.values(), *eqn.inputs), params=params, bodies=(step,))


def sizes_among(values: Sequence[Var], operands: Sequence[Var]) -> dict[Var, Dim]:
    """The values that are the size of an axis of what is given, with that size."""
    axes = [d for v in operands for d in v.type.shape]
    size_of = {v: dim for v in values if (dim := _open_size(v)) is not None}
    return {v: dim for v, dim in size_of.items() if any(same(d, dim) is True for d in axes)}


def _open_size(value: Var) -> Dim | None:
    """The open size that a scalar is known to be."""
    if value.type.dtype is not DType.i32 or value.type.rank or value.value is None:
        return None
    return None if is_known(dim := value.value.item()) else dim
