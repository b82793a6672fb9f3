"""The time of a fused recurrent operator: a cost model whose constants `bench/loops.py` measures in LiteRT."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from statistics import geometric_mean

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Const, Eqn
from jfuse.kernels.core.op import TflOp
from jfuse.opaque_ops.state_operands import written_operands
from jfuse.passes.options import ANY_MACHINE, FUSED
from jfuse.passes.scans.to_loops.loop_cost import OPEN_LENGTH, OPERATOR_US
from jfuse.passes.scans.to_loops.measured_forms import errors_in, machines_of

MATRIX_US = 0.04  # a matrix in each step: an LSTM has 8 with what follows them, a simple RNN 2
DOT_US = 0.002  # a row of a matrix: a dot product, however short
PRODUCT_US = 7.8e-5  # a product of a weight and a number; XNNPACK, which does not take fused ops, needs less
FUSED_CONSTANTS = ("MATRIX_US", "DOT_US", "PRODUCT_US")
"""In the order of `FusedSize.features`."""
# The same of an LSTM with int8 weights and float activations: bench/recurrences_in_8_bits.py, 32 to 256 units.
_HYBRID_US = (0.04, 0.0044, 1.4e-5)
_INTEGER_US = 0.036  # a row of a matrix in an LSTM of integers, of eight for each unit: it computes number by number


@dataclass(frozen=True)
class FusedSize:
    """The size of a fused recurrent op, which decides its cost: steps, rows of the batch, and its matrices.

    dots: rows of all matrices; weights: numbers in them.
    """

    steps: int
    rows: int
    matrices: int
    dots: int
    weights: int

    @classmethod
    def of(cls, eqn: Eqn) -> FusedSize | None:
        """The size of a fused op, a sequence of open length counted as one of OPEN_LENGTH; None for the user's own."""
        x = eqn.inputs[0]
        if x is None or not isinstance(eqn.op, TflOp):
            return None
        axis = 0 if eqn.params.get("time_major") else 1
        sizes = [int(d) if is_known(d) else None for d in x.type.shape]
        steps, rows = (sizes[axis] or OPEN_LENGTH, sizes[1 - axis] or 1) if x.type.rank == 3 else (1, sizes[0] or 1)
        weights = [a for i, a in enumerate(eqn.inputs) if i not in written_operands(eqn)]
        matrices = [a.array for a in weights if isinstance(a, Const) and a.type.rank == 2]
        if eqn.op.overwrites:  # a basic cell takes as long as a step of the full kernel, which has eight matrices
            return cls(steps, rows, 8, 2 * sum(map(len, matrices)), sum(a.size for a in matrices))
        return cls(steps, rows, len(matrices), sum(map(len, matrices)), sum(a.size for a in matrices))

    def features(self) -> tuple[float, ...]:
        """Matrices, dot products with their rows, and products of a weight and a number, of all steps."""
        several = self.steps * self.rows
        return self.steps * self.matrices, several * self.dots, several * self.weights

    def microseconds(self, machine: str = ANY_MACHINE) -> float:
        """The estimated time of one invoke in microseconds, by the model and what it errs by for operators nearby.

        Of several machines it is the geometric mean.
        """
        return self.modelled() * geometric_mean(
            errors_in(FUSED, name).factor(self.place()) for name in machines_of(machine)
        )

    def modelled(self) -> float:
        """The time of one invoke by the model alone, in microseconds."""
        return sum(count * us for count, us in zip(self.features(), (MATRIX_US, DOT_US, PRODUCT_US), strict=True))

    def hybrid_microseconds(self) -> float:
        """About the time of one invoke with int8 weights and float activations, in microseconds."""
        return sum(count * us for count, us in zip(self.features(), _HYBRID_US, strict=True))

    def integer_microseconds(self) -> float:
        """About the time of one invoke of an LSTM in integers, in microseconds."""
        return self.steps * self.rows * self.dots * _INTEGER_US

    def place(self) -> tuple[float, ...]:
        """Where the operator is among others, one unit of length for each factor e of its steps and matrices."""
        return log(self.steps + 1), log(self.matrices + 1), 0.5 * log(self.weights + 1), log(self.rows + 1)


def fused_microseconds(eqn: Eqn, machine: str = ANY_MACHINE) -> float:
    """The estimated time of one invoke of a fused recurrent op, in microseconds."""
    size = FusedSize.of(eqn)
    return OPERATOR_US if size is None else size.microseconds(machine)
