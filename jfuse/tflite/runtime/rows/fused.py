"""Recurrent layers: their rows."""

from __future__ import annotations

from jfuse.ir.graph import Eqn
from jfuse.tflite.runtime.needs import QUANTIZES_GATES, QUANTIZES_WEIGHTS, asymmetric, first, hybrid, option, option_not
from jfuse.tflite.runtime.quantized import (
    GateOperands,
    IntegerLstm,
    IntegerSvdf,
    Quantized,
    WeightOperand,
    beside_floats,
    integers,
)
from jfuse.tflite.runtime.row import Row, Values, kernel


def _weights(
    *matrices: int, recurrent: tuple[int, ...] = (), peepholes: tuple[int, ...] = ()
) -> tuple[WeightOperand, ...]:
    """Weights that the kernel takes as i8 with one scale each. recurrent: matrices that may be vectors, in floats."""
    way = beside_floats(tensor="i8")
    return (
        *(WeightOperand(i, 0, way) for i in matrices),
        *(WeightOperand(i, 0, way, rank=2) for i in recurrent),
        *(WeightOperand(i, 0, way, along=True) for i in peepholes),
    )


def _why_not_integers(eqn: Eqn) -> str | None:
    """Where the integer kernel of an LSTM computes something else (lstm_eval.cc, EvalInteger8x8_16)."""
    if eqn.params["fused_activation_function"] != "TANH":
        return "the integer kernel of the LSTM has no activation but tanh"
    if any(a is not None and a.type.rank == 1 for a in eqn.inputs[5:9]):
        return "the integer kernel of the LSTM has no diagonal recurrence"
    projection = eqn.inputs[16]
    if projection is not None and eqn.inputs[10] is not None and projection.type.shape[0] != projection.type.shape[1]:
        return "the integer kernel of the LSTM takes peepholes of a projection for those of another cell"
    if eqn.params["proj_clip"]:
        return "the integer kernel of the LSTM clips its projection without regard to the zero point"
    return None


def _why_not_integers_of_svdf(eqn: Eqn) -> str | None:
    """The kernel refuses other activations (svdf.cc, Eval)."""
    if eqn.params["fused_activation_function"] != "RELU":
        return "the integer kernel of SVDF has no activation but RELU"
    return None


_LSTM = Quantized(
    integers("i8", "free"),
    _weights(1, 2, 3, 4, 16, recurrent=(5, 6, 7, 8), peepholes=(9, 10, 11)),
    together=True,
    recurrence=IntegerLstm(
        data=0,
        gates=(
            GateOperands(1, 5, 12, 20, 0, "input_gate", peephole=9),
            GateOperands(2, 6, 13, 21, 1, "forget_gate", peephole=10),
            GateOperands(3, 7, 14, 22, 2, "cell_gate"),
            GateOperands(4, 8, 15, 23, 3, "output_gate", peephole=11),
        ),
        projection=(16, 17),
        output_state=18,
        cell_state=19,
        hidden=4,
        cell_exponents=(-15, -9),  # tanh has from 0 to 6 integer bits there
        why_not=_why_not_integers,
    ),
)
_BIDIRECTIONAL_LSTM = Quantized(
    weights=_weights(*range(1, 9), 16, *range(18, 26), 33, *range(40, 48), peepholes=(9, 10, 11, 26, 27, 28)),
    together=True,
)
_RNN = Quantized(weights=_weights(1, 2), together=True)
# With the steps first it starts from the states that it ends with (LiteRT 2.3.0).
_BIDIRECTIONAL_RNN = Quantized(weights=_weights(1, 2, 5, 6, 10, 11), together=True, wrong_with="time_major")
# The kernel keeps the row sums that a zero point needs in a buffer of the wrong type (LiteRT 2.3.0).
_SVDF = Quantized(
    integers("i8", "free"),
    _weights(1, 2),
    together=True,
    asymmetric=False,
    # Time weights use ten of their sixteen bits: the products with the state are summed in 32.
    recurrence=IntegerSvdf(
        data=0, features=1, times=2, bias=3, state=4, time_steps=512, why_not=_why_not_integers_of_svdf
    ),
)

ROWS: tuple[Row, ...] = (
    kernel(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        "1.14.0 1.14.0 1.14.0",
        *QUANTIZES_GATES,
        values=Values.COMPUTED,
        quantized=_BIDIRECTIONAL_LSTM,
    ),
    kernel(
        "BIDIRECTIONAL_SEQUENCE_RNN",
        "1.14.0 1.14.0 2.3.0",
        *QUANTIZES_WEIGHTS,
        values=Values.COMPUTED,
        quantized=_BIDIRECTIONAL_RNN,
    ),
    kernel(
        "LSTM",
        "1.7.0 1.10.0 1.14.0 2.3.0",
        (2, option_not("kernel_type", "FULL")),
        (4, asymmetric(2)),
        (3, hybrid(2)),
        values=Values.COMPUTED,
        quantized=_LSTM,
    ),
    kernel("RNN", "1.5.0 1.14.0 2.3.0", *QUANTIZES_WEIGHTS, values=Values.COMPUTED, quantized=_RNN),
    kernel(
        "SVDF",
        "1.5.0 1.14.0 2.2.0 2.3.0",
        (3, first("i8")),
        (4, asymmetric(1)),
        (2, hybrid(1)),
        values=Values.COMPUTED,
        quantized=_SVDF,
    ),
    kernel(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "1.13.1 1.14.0 2.3.0 2.12.0",
        (4, option("diagonal_recurrent_tensors")),
        *QUANTIZES_GATES,
        values=Values.COMPUTED,
        quantized=_LSTM,
    ),
    kernel(
        "UNIDIRECTIONAL_SEQUENCE_RNN", "1.14.0 1.14.0 2.3.0", *QUANTIZES_WEIGHTS, values=Values.COMPUTED, quantized=_RNN
    ),
)
