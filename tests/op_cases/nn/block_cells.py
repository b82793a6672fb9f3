"""Rows of lowering/ops/nn/block_cells.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_cases.case import Case, case, const, f32, weights

_UNITS, _FEATURES = 4, 3


def block_cell(batch: int, **attributes: Any) -> Case:
    """One step with large enough states that a clip is felt."""
    peepholes = [weights(_UNITS) for _ in range(3)]
    states = [f32(batch, _UNITS, low=-4, high=4), f32(batch, _UNITS)]
    kernel = [weights(_FEATURES + _UNITS, 4 * _UNITS), *peepholes, weights(4 * _UNITS)]
    return case("LSTMBlockCell", args=[f32(batch, _FEATURES), *states, *kernel], dynamic=True, **attributes)


def block_lstm(op: str, batch: int, **attributes: Any) -> Case:
    """Five steps; where fewer count, TensorFlow leaves the gates of the others as they were in memory."""
    peepholes = [weights(_UNITS) for _ in range(3)]
    states = [f32(batch, _UNITS, low=-4, high=4), f32(batch, _UNITS)]
    kernel = [weights(_FEATURES + _UNITS, 4 * _UNITS), *peepholes, weights(4 * _UNITS)]
    args = [const(np.int64(5)), f32(5, batch, _FEATURES), *states, *kernel]
    return case(op, args=args, **attributes)


def gru_cell(batch: int) -> Case:
    """One step of a GRU."""
    kernel = [weights(_FEATURES + _UNITS, 2 * _UNITS), weights(_FEATURES + _UNITS, _UNITS)]
    biases = [weights(2 * _UNITS), weights(_UNITS)]
    return case("GRUBlockCell", args=[f32(batch, _FEATURES), f32(batch, _UNITS), *kernel, *biases], dynamic=True)


CASES: tuple[Case, ...] = (
    block_cell(2, forget_bias=1.0, cell_clip=3.0, use_peephole=False),
    block_cell(1, forget_bias=0.0, cell_clip=-1.0, use_peephole=False),
    block_cell(2, forget_bias=1.0, cell_clip=0.5, use_peephole=True),
    block_lstm("BlockLSTM", 2, forget_bias=1.0, cell_clip=3.0, use_peephole=False),
    block_lstm("BlockLSTM", 1, forget_bias=0.5, cell_clip=0.5, use_peephole=True),
    block_lstm("BlockLSTMV2", 2, cell_clip=0.0, use_peephole=False),
    block_lstm("BlockLSTMV2", 1, cell_clip=0.5, use_peephole=True),
    gru_cell(1),
    gru_cell(3),
)
