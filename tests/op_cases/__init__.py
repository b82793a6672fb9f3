"""All rows, by family. A new family adds its line here."""

from __future__ import annotations

from tests.op_cases import (
    activation,
    array,
    block_cells,
    conv,
    einsum,
    elementwise,
    gather,
    matmul,
    reduce,
    slicing,
    special,
)
from tests.op_cases.case import Case, Gap

FAMILIES: dict[str, tuple[Case, ...]] = {
    "activation": activation.CASES,
    "array": array.CASES,
    "block_cells": block_cells.CASES,
    "conv": conv.CASES,
    "einsum": einsum.CASES,
    "elementwise": elementwise.CASES,
    "gather": gather.CASES,
    "matmul": matmul.CASES,
    "reduce": reduce.CASES,
    "slicing": slicing.CASES,
    "special": special.CASES,
}

GAPS: tuple[Gap, ...] = (
    Gap("BIDIRECTIONAL_SEQUENCE_LSTM", "a fusion's op: tests/kernels/test_bidirectional_lstm.py"),
    Gap("BIDIRECTIONAL_SEQUENCE_RNN", "a fusion's op: tests/kernels/test_bidirectional_rnn.py"),
    Gap("DYNAMIC_UPDATE_SLICE", "lists are written with it: tests/kernels/test_gather.py"),
    Gap("EMBEDDING_LOOKUP", "a composite's op: tests/kernels/test_gather.py"),
    Gap("GELU", "no TensorFlow op is one; recognised in graphs: tests/kernels/test_activation.py"),
    Gap("HARD_SWISH", "no TensorFlow op is one; recognised in graphs: tests/kernels/test_activation.py"),
    Gap("LSTM", "a fusion's op: tests/kernels/test_lstm_step.py"),
    Gap("RANGE", "a row's range is a constant: tests/kernels/test_gather.py"),
    Gap("RANK", "a tensor's rank is a constant: tests/kernels/test_gather.py"),
    Gap("RNN", "a fusion's op: tests/kernels/test_rnn.py"),
    Gap("SLICE", "slices are STRIDED_SLICE, see lowering/slicing.py: tests/kernels/test_gather.py"),
    Gap("SVDF", "a fusion's op: tests/kernels/test_svdf.py"),
    Gap("UNIDIRECTIONAL_SEQUENCE_LSTM", "a fusion's op: tests/kernels/test_lstm.py"),
    Gap("UNIDIRECTIONAL_SEQUENCE_RNN", "a fusion's op: tests/kernels/test_rnn.py"),
)
