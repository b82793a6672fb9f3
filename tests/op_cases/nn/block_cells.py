"""Rows of lowering/ops/nn/block_cells.py."""

from __future__ import annotations

from typing import Any

from tests.op_cases.case import Case, case, f32, weights

_UNITS, _FEATURES = 4, 3


def block_cell(batch: int, **attributes: Any) -> Case:
    """One step with large enough states that a clip is felt."""
    peepholes = [weights(_UNITS) for _ in range(3)]
    states = [f32(batch, _UNITS, low=-4, high=4), f32(batch, _UNITS)]
    kernel = [weights(_FEATURES + _UNITS, 4 * _UNITS), *peepholes, weights(4 * _UNITS)]
    return case("LSTMBlockCell", args=[f32(batch, _FEATURES), *states, *kernel], dynamic=True, **attributes)


CASES: tuple[Case, ...] = (
    block_cell(2, forget_bias=1.0, cell_clip=3.0, use_peephole=False),
    block_cell(1, forget_bias=0.0, cell_clip=-1.0, use_peephole=False),
    block_cell(2, forget_bias=1.0, cell_clip=0.5, use_peephole=True),
)
