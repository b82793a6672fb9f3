"""Which operands an equation updates in place: states of recurrent ops, and of operators kept as a file has them."""

from __future__ import annotations

from jfuse.ir.graph import Eqn
from jfuse.kernels.core.op import TflOp, new_states
from jfuse.opaque_ops.opaque_op import OpaqueOp
from jfuse.opaque_ops.tf_op import CustomOp


def state_operands(eqn: Eqn) -> dict[int, int]:
    """For each operand that the op updates in place, by position, the result that it becomes."""
    if isinstance(eqn.op, TflOp):
        return {eqn.op.operand_index(name): i for name, i in new_states(eqn).items()}
    updates = eqn.params.get("updates", ()) if isinstance(eqn.op, CustomOp | OpaqueOp) else ()
    return {operand: len(eqn.outputs) - len(updates) + i for i, operand in enumerate(updates)}


def keeps_state(eqn: Eqn) -> bool:
    """Whether the op updates some of its operands in place."""
    return bool(state_operands(eqn))


def operand_name(eqn: Eqn, index: int) -> str:
    """What an operand is called in messages."""
    declared = getattr(eqn.op, "operands", ())
    return declared[min(index, len(declared) - 1)].name if declared else f"operand {index}"
