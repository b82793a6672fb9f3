"""One operator of a .tflite file as an equation: with jfuse's op where there is one, else opaque."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.base.errors import BadFlatbuffer, LowerError, TypeMismatch
from jfuse.ir.declared_types import has_stated, stand_ins
from jfuse.ir.graph import Atom, Graph, Op, Var
from jfuse.ir.registry import find_op
from jfuse.ir.trace import active_trace, carried_types
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import rename_dims
from jfuse.kernels import ops
from jfuse.kernels.core.op import TflOp, record
from jfuse.kernels.core.record import infer_resolving
from jfuse.kernels.core.static_values import static_value
from jfuse.opaque_ops.opaque_op import OpaqueOp
from jfuse.tflite.opaque_options import named_subgraphs, packed_options
from jfuse.tflite.options import as_recorded, body_indices, from_table
from jfuse.tflite.read.fields import options_of

Body = Callable[[int, Sequence[TensorType] | None], Graph]
"""A subgraph as the body of an equation: by its index, and the types of the operands (None for its own inputs')."""


@dataclass(frozen=True)
class Results:
    """The types that the file states for an operator's results, by position.

    element: dtype and quantization alone, as those of a scalar. type: the whole type; open sizes are symbols of their
    own. compare: raises where the derived type (with stand-ins: True) differs. are_stated: some are
    quantized. updated: the operands in state tensors, by position, that an operator unknown to jfuse may write.
    """

    count: int
    element: Callable[[int], TensorType]
    type: Callable[[int], TensorType]
    compare: Callable[[int, TensorType, bool], None]
    are_stated: bool
    updated: tuple[int, ...] = ()

    def types(self) -> tuple[TensorType, ...]:
        """The types that the file states for all results, in their order."""
        return tuple(self.type(i) for i in range(self.count))


def op_of(builtin: str) -> Op | None:
    """The op that computes a builtin; None where there is none."""
    op = find_op(builtin.lower())
    return op if op is not None and op.builtin == builtin else None


def equation(builtin: str, operator: Any, operands: list[Atom | None], results: Results, body: Body) -> Sequence[Var]:
    """Record the equation of an operator; its results, new states among them."""
    table = options_of(builtin, operator)
    op = op_of(builtin)
    if isinstance(op, TflOp):
        try:
            params = from_table(builtin, table, tuple(op.options), results.element(0).dtype if results.count else None)
        except LowerError:  # an option that the op does not know of: kept as it is
            return opaque(builtin, table, operands, results, body)
        if params.get("kernel_type") == "BASIC":
            marks = operator.mutatingVariableInputs
            is_old = bool(results.updated) or (marks is not None and len(marks) > 0)
            if is_old or any(a is None or a.type.dtype is not DType.f32 for a in operands):
                return opaque(builtin, table, operands, results, body)  # as converters of 2018 wrote it
            op = ops.basic_lstm
        return _builtin(op, builtin, table, operands, params, results, body)
    return (
        opaque(builtin, table, operands, results, body)
        if op is None
        else _structured(op, builtin, operands, table, results, body)
    )


def _builtin(
    op: TflOp,
    builtin: str,
    table: Any,
    operands: list[Atom | None],
    params: dict[str, Any],
    results: Results,
    body: Body,
) -> Sequence[Var]:
    plain_operands = list(operands)
    as_recorded(builtin, operands, params)
    if not any(o.variadic for o in op.operands):
        if len(operands) > len(op.operands):
            raise BadFlatbuffer("too many operands", expected=len(op.operands), found=len(operands))
        operands += [None] * (len(op.operands) - len(operands))
    missing = [op.operand_at(i).name for i, a in enumerate(operands) if a is None and not op.operand_at(i).optional]
    if missing:
        raise BadFlatbuffer("an operator lacks an operand", expected=", ".join(missing))
    if results.are_stated or has_stated(operands):
        return _stated(op, operands, params, results)
    try:
        recorded = record(op, operands, params)
    except TypeMismatch:
        if _is_sized_by_values(op, operands):
            return opaque(builtin, table, plain_operands, results, body)
        raise
    if all(isinstance(r, Var) for r in recorded):
        return recorded
    # What follows from shapes alone folds while it is recorded; here the file is kept operator by operator.
    types = op.infer(operands, params)
    return active_trace().append(op, operands, types, params, values=[np.asarray(r) for r in recorded])


def _stated(op: TflOp, operands: list[Atom | None], params: dict[str, Any], results: Results) -> Sequence[Var]:
    """An equation on quantized tensors: of the stated types, with the shapes that follow for floats."""
    trace = active_trace()
    count = results.count + len(op.updates)
    updates = op.new_states(count)
    types: list[TensorType | None] = [None] * count
    values: Sequence[np.ndarray | None] = [None] * count
    derived: Sequence[TensorType | None] = types
    mismatch: TypeMismatch | None = None
    for inputs in stand_ins(operands) if all(a is None or a.type.ranked for a in operands) else ():
        try:
            derived = infer_resolving(op, trace, inputs, params)
        except TypeMismatch as error:
            mismatch = mismatch or error
            continue
        mismatch = None
        values = op.known_values(inputs, params, len(derived))
        break
    if mismatch is not None and not _is_sized_by_values(op, operands):
        raise mismatch
    if len(derived) != count:
        raise BadFlatbuffer(
            "an operator has another number of outputs", expected=len(derived) - len(op.updates), found=results.count
        )
    for operand, position in updates.items():
        state = operands[op.operand_index(operand)]
        types[position] = None if state is None else state.type
    plain = [i for i in range(count) if i not in updates.values()]
    for place, position in enumerate(plain):
        types[position] = _merged(results, place, derived[position])
    if None in types:
        raise BadFlatbuffer("an operator lacks a state")
    known = [v if t is not None and t.quantization is None else None for v, t in zip(values, types, strict=True)]
    return trace.append(op, operands, [t for t in types if t is not None], params, values=known)


def _is_sized_by_values(op: TflOp, operands: Sequence[Atom | None]) -> bool:
    """Whether the runtime reads at run time what jfuse would have to know before."""
    return any(op.operand_at(i).static and a is not None and static_value(a) is None for i, a in enumerate(operands))


def _merged(results: Results, place: int, derived: TensorType | None) -> TensorType:
    if derived is None:
        return results.type(place)
    results.compare(place, derived, True)
    return replace(results.element(place), shape=derived.shape)


def opaque(builtin: str, table: Any, operands: list[Atom | None], results: Results, body: Body) -> Sequence[Var]:
    """Record an operator as it is, of the types that the file states.   table: its options"""
    types = (*results.types(), *state_types(operands, results.updated))
    bodies = [body(index, None) for index in named_subgraphs(table)]
    params = {"options": packed_options(table), "updates": results.updated}
    return active_trace().append(OpaqueOp(builtin, types), operands, types, params, bodies)


def state_types(operands: Sequence[Atom | None], updated: Sequence[int]) -> tuple[TensorType, ...]:
    """The types of the states among the operands, by their positions."""
    states = (operands[i] for i in updated)
    return tuple(state.type for state in states if state is not None)


def _structured(
    op: Op, builtin: str, operands: list[Atom | None], table: Any, results: Results, body: Body
) -> Sequence[Var]:
    if table is None or None in operands:
        raise BadFlatbuffer("an operator with bodies needs its options and all its operands")
    trace = active_trace()
    atoms = [a for a in operands if a is not None]
    carried = atoms[1:] if builtin == "IF" else atoms  # the first operand of IF is the flag
    types, opened = [a.type for a in carried], set[str]()
    while True:
        bodies = [body(i, [*map(trace.resolve, types)]) for i in body_indices(builtin, table)]
        if builtin == "WHILE" and len(bodies[1].outputs) != len(types):
            count = len(bodies[1].outputs)
            raise BadFlatbuffer("the body of a loop gives another number of values", expected=len(types), found=count)
        renewed = carried_types(bodies[1], opened) if builtin == "WHILE" else types
        if renewed == types:
            break
        types = renewed
    # After the bodies, which may equate sizes, also of those read before.
    resolved = [Var(trace.resolve(a.type)) for a in atoms]
    renamed = {id(body): rename_dims(body, trace.sizes) for body in bodies}
    bodies = [renamed[id(body)] for body in bodies]
    types = list(op.infer(resolved, {}, bodies))
    if len(types) != results.count:
        raise BadFlatbuffer("an operator has another number of outputs", expected=len(types), found=results.count)
    stated = [results.element(i) for i in range(results.count)]
    types = [replace(t, quantization=s.quantization, holds=s.holds) for t, s in zip(types, stated, strict=True)]
    return trace.append(op, operands, types, from_table(builtin, table, tuple(op.defaults)), bodies)
