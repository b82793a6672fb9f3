"""All rows, by rule module: a file of rows says in its docstring whose ops it holds. A new one adds its line."""

from __future__ import annotations

from tests.op_cases.array import (
    array,
    debug,
    gather,
    lists,
    ragged,
    scatter,
    sequence,
    shapes,
    slicing,
    sort,
    sparse,
    sparse_algebra,
)
from tests.op_cases.case import Case, Gap
from tests.op_cases.image import (
    blocks,
    colour,
    combined_detection,
    crops,
    detection,
    drawing,
    morphology,
    patches,
    projection,
    resize,
)
from tests.op_cases.linalg import einsum, elimination, matmul, matrix
from tests.op_cases.math import (
    bessel,
    bits,
    complex_numbers,
    division,
    elementwise,
    fake_quant,
    gamma,
    histogram,
    quantile,
    quantized_floats,
    random,
    reduce,
    segment,
    special,
    stateless_random,
    trigonometry,
)
from tests.op_cases.nn import activation, block_cells, conv, gradients, norm, pool, transpose_conv
from tests.op_cases.signal import audio, ctc, ctc_beam_search, signal
from tests.op_cases.text import table

MODULES = (
    *(array, debug, gather, lists, ragged, scatter, sequence, shapes, slicing, sort, sparse, sparse_algebra),
    *(blocks, colour, combined_detection, crops, detection, drawing, morphology, patches, projection, resize),
    *(einsum, elimination, matmul, matrix),
    *(bessel, bits, complex_numbers, division, elementwise, fake_quant, gamma, histogram, quantile, quantized_floats),
    *(random, reduce, segment, special, stateless_random, trigonometry),
    *(activation, block_cells, conv, gradients, norm, pool, transpose_conv),
    *(audio, ctc, ctc_beam_search, signal),
    table,
)

FAMILIES: dict[str, tuple[Case, ...]] = {module.__name__.rpartition(".")[2]: module.CASES for module in MODULES}

# Ops of TensorFlow that have a rule and no row.
RULE_GAPS: tuple[Gap, ...] = (
    *elementwise.GAPS,
    *elimination.GAPS,
    *gather.GAPS,
    *lists.GAPS,
    *matrix.GAPS,
    *random.GAPS,
    *sort.GAPS,
    *stateless_random.GAPS,
)

# Builtins of TFLite that no row's graph holds.
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
    Gap(
        "L2_POOL_2D",
        "no TensorFlow op is one, and XNNPACK, which has none, is faster with three: tests/kernels/nn/test_windows.py",
    ),
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
