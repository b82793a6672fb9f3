"""A fused recurrent op in words: the cell, its sizes, and what sets it apart from the plain one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jfuse.ir.graph import Atom, Eqn


def describe(eqn: Eqn) -> str:
    """For example "LSTM of 16 units, 8 inputs, 20 steps; peepholes, projection to 4"; "" for ops of no known cell."""
    op = eqn.op
    if not op.cell:
        return ""
    operands = {op.operand_at(i).name: a for i, a in enumerate(eqn.inputs) if a is not None}
    sizes = ", ".join(_sizes(eqn, operands))
    extras = ", ".join(_extras(eqn, operands))
    return f"{op.cell} of {sizes}" + (f"; {extras}" if extras else "")


def _sizes(eqn: Eqn, operands: Mapping[str, Atom]) -> Iterator[str]:
    x = eqn.inputs[0]
    assert x is not None
    weights = next(a for name, a in operands.items() if name in ("input_to_forget_weights", "weights", "weights_time"))
    yield f"{weights.type.shape[0]} units"
    yield f"{x.type.shape[-1]} inputs"
    if x.type.rank == 3:
        yield f"{x.type.shape[0 if eqn.params.get('time_major') else 1]} steps"


def _extras(eqn: Eqn, operands: Mapping[str, Atom]) -> Iterator[str]:
    activation = eqn.params.get("fused_activation_function", "NONE")
    gated = "cell_state" in eqn.op.updates
    if activation != ("TANH" if gated else None):
        yield "linear" if activation == "NONE" else activation.lower()
    if gated and "input_to_input_weights" not in operands:
        yield "coupled gates"
    if "cell_to_forget_weights" in operands:
        yield "peepholes"
    if "forget_layer_norm_coefficients" in operands:
        yield "layer normalization"
    if "projection_weights" in operands:
        yield f"projection to {operands['projection_weights'].type.shape[0]}"
    for clip in ("cell_clip", "proj_clip"):
        if eqn.params.get(clip):
            yield f"{clip} {eqn.params[clip]:g}"
    if eqn.params.get("diagonal_recurrent_tensors"):
        yield "diagonal recurrence"
    if "rank" in eqn.params:
        yield f"rank {eqn.params['rank']}"
