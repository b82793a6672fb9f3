"""The form of what a row says of quantized tensors: weights in few bits, and kernels that compute in integers.

All of it was measured on LiteRT 2.3.0, with its default delegates and without them: a kernel does not always refuse
what it does not take, as with CONV_2D on i2 filters, which answers numbers without meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType

Need = Callable[[Eqn], bool]
Granularity = Literal["tensor", "channel", "block"]
"""Which elements share a scale: all, those at one index of an axis, or so many neighbours along the last axis."""


@dataclass(frozen=True)
class Hybrid:
    """One way in which a kernel takes integer weights beside float operands.

    dtype: of the weights. granularity: of their scales. row_multiple: the last axis must be a multiple of it. needs:
    what an equation must fulfil besides.
    """

    dtype: DType
    granularity: Granularity
    row_multiple: int = 1
    needs: Need | None = None


@dataclass(frozen=True)
class WeightOperand:
    """An operand that is usually a constant, and may be kept in few bits.

    operand: its position. axis: along which each index gives results of its own, so that it may have its own scale;
    counted from the end where negative; a function of the equation where options decide it. hybrid: how the float
    kernel takes it in integers; otherwise DEQUANTIZE stands before it. moved: the kernel hands elements of it on
    without computing, so that DEQUANTIZE can stand behind it. integer: the types that the kernel of integers takes,
    and whether they may have a scale for each channel. computed: it takes weights that are no constant as activations.
    along: with the other weights of the kernel, however few elements it has. rank: an operand of fewer axes stays
    float; 0 for any.
    """

    operand: int
    axis: int | Callable[[Eqn], int]
    hybrid: tuple[Hybrid, ...] = ()
    moved: bool = False
    integer: frozenset[DType] = frozenset({DType.i8})
    integer_per_channel: bool = True
    computed: bool = False
    along: bool = False
    rank: int = 0

    def axis_of(self, eqn: Eqn) -> int:
        """The axis of the channels in an equation, from 0 on."""
        axis = self.axis if isinstance(self.axis, int) else self.axis(eqn)
        atom = eqn.inputs[self.operand]
        return axis % atom.type.rank if atom is not None and atom.type.rank else 0


@dataclass(frozen=True)
class Fixed:
    """The scale and zero point that a kernel demands of its result."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class TrainedRange:
    """The range to which an equation clips its operand, as a tensor of so many bits would.

    step: the distance of its numbers, which include 0. first: the integer for `low`, counted from 0.
    """

    low: float
    high: float
    step: float
    bits: int
    first: int


Result = Literal["free", "same", "plain"] | Mapping[DType, Fixed]
"""The result of an integer kernel: of any scale, of the scale of all its activations, plain numbers (indices, truth
values), or of one scale for each type."""


@dataclass(frozen=True)
class Integers:
    """How a kernel computes in integers.

    types: of the activations. result: as above. bias: the operand that is added to products, whose scale is the
    product of those of the first activation and the weights. needs: what an equation must fulfil besides.
    trained: gives the range that an equation says its result has, which does nothing but cut and round as integers do:
    where there are integers none is needed. below_scale: the scales of activations must be smaller, as the kernel ends
    the process otherwise. not_negative: an invoke with a negative number fails, so that the type of the operand must
    hold none. least_scale: gives the least scale of the result for the largest one of the activations, which the kernel
    checks by ending the process, too; finer steps would tell nothing. least_constant: gives that of a constant for the
    scale of the result: XNNPACK leaves others to a slower kernel. saturates: by type, how far from 0 operands change
    the result; it is the same beyond. fades: numbers so far below the largest of a row
    do not matter to the result; 0 if all do. options: what kernels of integers are told. unscaled: types of activations
    that are compared as they are, so that all operands must have one scale.
    """

    types: frozenset[DType]
    result: Result
    bias: int | None = None
    needs: Need | None = None
    trained: Callable[[Eqn], TrainedRange] | None = None
    below_scale: float = math.inf
    not_negative: bool = False
    least_scale: Callable[[float], float] = lambda scale: 0.0
    least_constant: Callable[[float], float] = lambda scale: 0.0
    saturates: Mapping[DType, float] = field(default_factory=dict)
    fades: float = 0.0
    unscaled: frozenset[DType] = frozenset()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GateOperands:
    """The operands of one gate of an LSTM by position, and which intermediate tensor is its total before a layer norm.

    part: what calibration calls that total.
    """

    weights: int
    recurrent: int
    bias: int
    norm: int
    intermediate: int
    part: str
    peephole: int | None = None


@dataclass(frozen=True)
class IntegerLstm:
    """How the kernel of an LSTM computes in integers: i8 with a cell state of i16 whose scale is a power of two.

    data: the input. gates, projection (weights and bias): constants, one scale for each. output_state, cell_state: the
    states, which become results 1 and 2; result 0 and the output state have one scale. hidden: the intermediate tensor
    before the projection. cell_exponents: the least and the greatest exponent of the cell state's scale. why_not: the
    reason why the kernel does not compute an equation rightly; None where it does.
    """

    data: int
    gates: tuple[GateOperands, ...]
    projection: tuple[int, int]
    output_state: int
    cell_state: int
    hidden: int
    cell_exponents: tuple[int, int]
    why_not: Callable[[Eqn], str | None]

    @property
    def read(self) -> tuple[int, ...]:
        """The operands that are computed at run time."""
        return self.data, self.output_state, self.cell_state


@dataclass(frozen=True)
class IntegerSvdf:
    """How the kernel of an SVDF computes in integers: i8, with a state and time weights of i16.

    data: the input. features, times: constants, one scale for each. bias: i32, in the scale of the state times that of
    `times`. state: becomes result 1, with the same scale. time_steps: on either side of 0 in `times`. why_not: as for
    an LSTM.
    """

    data: int
    features: int
    times: int
    bias: int
    state: int
    time_steps: int
    why_not: Callable[[Eqn], str | None]

    @property
    def read(self) -> tuple[int, ...]:
        """The operands that are computed at run time."""
        return self.data, self.state


@dataclass(frozen=True)
class Quantized:
    """The ways in which a runtime's kernel takes quantized tensors.

    weights: operands that may be kept in few bits. together: they are quantized all or none. asymmetric: whether the
    kernel with integer weights is right where it takes a zero point for its float operands. wrong_with: the option with
    which that kernel is wrong beside floats. integers: the kernel that computes in integers, None without one.
    recurrence: the relations between the integers of a recurrent operator.
    """

    integers: Integers | None = None
    weights: tuple[WeightOperand, ...] = ()
    together: bool = False
    asymmetric: bool = True
    wrong_with: str | None = None
    recurrence: IntegerLstm | IntegerSvdf | None = None

    def weights_at(self, operand: int) -> WeightOperand | None:
        """Look up the weights at an operand's position; None where it has none."""
        return next((w for w in self.weights if w.operand == operand), None)


FLOAT_ONLY = Quantized()
I8_I4 = frozenset({DType.i8, DType.i4})


def beside_floats(tensor: str = "", channel: str = "", block: str = "", **row_multiple: int) -> tuple[Hybrid, ...]:
    """Ways by the types of weights, separated by blanks.   row_multiple: of a type, where it is not 1"""
    named = {"tensor": tensor, "channel": channel, "block": block}
    return tuple(
        Hybrid(DType(name), granularity, row_multiple.get(name, 1))  # type: ignore[arg-type]
        for granularity, names in named.items()
        for name in names.split()
    )


def integers(
    types: str, result: Literal["free", "same", "plain"] | Mapping[str, tuple[float, int]], **facts: Any
) -> Integers:
    """`Integers` with types by name, separated by blanks."""
    fixed: Result = (
        result if isinstance(result, str) else {DType(name): Fixed(*value) for name, value in result.items()}
    )
    return Integers(frozenset(map(DType, types.split())), fixed, **facts)
