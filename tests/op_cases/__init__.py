"""All rows, by family. A new family adds its line here."""

from __future__ import annotations

from tests.op_cases.array import array, gather, scatter, sequence, slicing, sort, strings
from tests.op_cases.case import Case, Gap
from tests.op_cases.image import blocks, detection, image
from tests.op_cases.linalg import einsum, matmul, matrix
from tests.op_cases.math import bits, dtypes, elementwise, fake_quant, ranks, reduce, segment, special, trigonometry
from tests.op_cases.nn import activation, block_cells, conv, norm, pool, transpose_conv
from tests.op_cases.signal import signal

FAMILIES: dict[str, tuple[Case, ...]] = {
    "activation": activation.CASES,
    "array": array.CASES,
    "bits": bits.CASES,
    "block_cells": block_cells.CASES,
    "blocks": blocks.CASES,
    "conv": conv.CASES,
    "detection": detection.CASES,
    "dtypes": dtypes.CASES,
    "einsum": einsum.CASES,
    "elementwise": elementwise.CASES,
    "fake_quant": fake_quant.CASES,
    "gather": gather.CASES,
    "image": image.CASES,
    "matmul": matmul.CASES,
    "matrix": matrix.CASES,
    "norm": norm.CASES,
    "pool": pool.CASES,
    "ranks": ranks.CASES,
    "reduce": reduce.CASES,
    "scatter": scatter.CASES,
    "segment": segment.CASES,
    "sequence": sequence.CASES,
    "signal": signal.CASES,
    "slicing": slicing.CASES,
    "sort": sort.CASES,
    "special": special.CASES,
    "strings": strings.CASES,
    "transpose_conv": transpose_conv.CASES,
    "trigonometry": trigonometry.CASES,
}

GAPS: tuple[Gap, ...] = (
    Gap("BIDIRECTIONAL_SEQUENCE_LSTM", "a fusion's op: tests/kernels/fused/test_bidirectional_lstm.py"),
    Gap("BIDIRECTIONAL_SEQUENCE_RNN", "a fusion's op: tests/kernels/fused/test_bidirectional_rnn.py"),
    Gap("DEQUANTIZE", "the scale is a type's, not an operand's: tests/kernels/nn/test_quantize.py"),
    Gap("EMBEDDING_LOOKUP", "a composite's op: tests/kernels/array/test_gather.py"),
    Gap("EMBEDDING_LOOKUP_SPARSE", "a composite's op: tests/kernels/text/test_lookup.py"),
    Gap("GELU", "no TensorFlow op is one; recognised in graphs: tests/kernels/nn/test_activation.py"),
    Gap("HARD_SWISH", "no TensorFlow op is one; recognised in graphs: tests/kernels/nn/test_activation.py"),
    Gap("HASHTABLE_FIND", "a table is no operand of a row: tests/end_to_end/test_tables.py"),
    Gap("HASHTABLE_LOOKUP", "a table is no operand of a row: tests/end_to_end/test_tables.py"),
    Gap("L2_NORMALIZATION", "no TensorFlow op is one; recognised in graphs: tests/kernels/nn/test_windows.py"),
    Gap("L2_POOL_2D", "no TensorFlow op is one: tests/kernels/nn/test_windows.py"),
    Gap("LSH_PROJECTION", "no TensorFlow op is one: tests/kernels/text/test_lookup.py"),
    Gap("LSTM", "a fusion's op: tests/kernels/fused/test_lstm_step.py"),
    Gap("MULTINOMIAL", "no two calls draw the same: tests/kernels/math/test_random.py"),
    Gap("PRELU", "no TensorFlow op is one; recognised in graphs: tests/kernels/nn/test_activation.py"),
    Gap("QUANTIZE", "the scale is a type's, not an operand's: tests/kernels/nn/test_quantize.py"),
    Gap("RANDOM_STANDARD_NORMAL", "no two calls draw the same: tests/kernels/math/test_random.py"),
    Gap("RANDOM_UNIFORM", "no two calls draw the same: tests/kernels/math/test_random.py"),
    Gap("RANK", "a tensor's rank is a constant: tests/kernels/array/test_gather.py"),
    Gap("RELU_0_TO_1", "no TensorFlow op is one: tests/kernels/nn/test_activation.py"),
    Gap("RELU_N1_TO_1", "no TensorFlow op is one; recognised in graphs: tests/kernels/nn/test_activation.py"),
    Gap("RNN", "a fusion's op: tests/kernels/fused/test_rnn.py"),
    Gap(
        "SEGMENT_SUM",
        "it takes no segments without rows, see lowering/ops/math/segment.py: tests/kernels/array/test_gather.py",
    ),
    Gap("SKIP_GRAM", "no TensorFlow op is one: tests/kernels/text/test_lookup.py"),
    Gap("SVDF", "a fusion's op: tests/kernels/fused/test_svdf.py"),
    Gap("UNIDIRECTIONAL_SEQUENCE_LSTM", "a fusion's op: tests/kernels/fused/test_lstm.py"),
    Gap("UNIDIRECTIONAL_SEQUENCE_RNN", "a fusion's op: tests/kernels/fused/test_rnn.py"),
)
