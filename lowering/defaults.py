"""The modules that fill the default rule set, each once."""

from __future__ import annotations

from jfuse.lowering import (  # noqa: F401
    activation,
    array,
    audio,
    bessel,
    bits,
    block_cells,
    blocks,
    colour,
    combined_detection,
    complex_numbers,
    conv,
    crops,
    ctc,
    debug,
    detection,
    division,
    drawing,
    einsum,
    elementwise,
    elimination,
    fake_quant,
    gamma,
    gather,
    histogram,
    lists,
    matmul,
    matrix,
    morphology,
    norm,
    patches,
    pool,
    projection,
    quantile,
    quantized_floats,
    random,
    reduce,
    resize,
    scatter,
    segment,
    sequence,
    shapes,
    signal,
    slicing,
    sort,
    special,
    table,
    transpose_conv,
    trigonometry,
)
from jfuse.lowering.composites import embedding, keras, lingvo, lookup, recurrent  # noqa: F401
from jfuse.lowering.recover import lstm, rnn, svdf, unfused  # noqa: F401
from jfuse.lowering.rules import DEFAULT, RuleSet


def default_rules() -> RuleSet:
    """jfuse's own rules, and what the user has registered by decorator."""
    return DEFAULT
