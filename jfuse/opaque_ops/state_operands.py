"""The operands that an equation updates in place: states of recurrent ops, and of operators kept from a file."""

from __future__ import annotations

from jfuse.ir.graph import Eqn


def state_operands(eqn: Eqn) -> dict[int, int]:
    """For each operand that the op updates in place, by position, the result that it becomes."""
    return eqn.op.state_operands(eqn)


def keeps_state(eqn: Eqn) -> bool:
    """Whether the op updates some of its operands in place."""
    return bool(state_operands(eqn))


def written_operands(eqn: Eqn) -> tuple[int, ...]:
    """Positions of operands whose tensors the op writes: its states, and others that it overwrites."""
    return (*state_operands(eqn), *overwritten_operands(eqn))


def overwritten_operands(eqn: Eqn) -> tuple[int, ...]:
    """The operands that the op overwrites though they are no states, by position."""
    return tuple(map(eqn.op.operand_index, eqn.op.overwrites))


def has_open_state(eqn: Eqn) -> bool:
    """Whether an op writes to an operand of open size, as fused recurrent ops do: LiteRT plans it in a memory apart."""
    states = [eqn.inputs[i] for i in written_operands(eqn)]
    return any(s is not None and not s.type.is_static for s in states)


def updated_operands(eqn: Eqn) -> dict[int, int]:
    """For each operand that the parameter `updates` names, by position, which of the last results it becomes.

    An operator without a kernel has the parameter, as the file says of it.
    """
    updates = eqn.params.get("updates", ())
    return {operand: len(eqn.outputs) - len(updates) + i for i, operand in enumerate(updates)}


def operand_name(eqn: Eqn, index: int) -> str:
    """Name of an operand in messages."""
    return eqn.op.operand_at(index).name
