"""LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM on quantized integers: i8 with a cell state of i16, whose scale is 2^n.

Source: tflite/kernels/lstm_eval.cc, LstmStepInteger8x8_16; tflite/kernels/unidirectional_sequence_lstm.cc, Prepare
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor, scale_of, zero_point_of
from jfuse.kernels.core.op import Array
from jfuse.kernels.fused.lstm import lstm, unidirectional_sequence_lstm
from jfuse.kernels.integer.numbers.exact_products import in_two_bytes, integer_products
from jfuse.kernels.integer.numbers.fixed_point import (
    Multiplier,
    high_mul,
    in_32_bits,
    multiplied,
    multiplied_half_up,
    multiplied_wide,
    shifted_right,
    shifted_right_half_up,
    wide,
)
from jfuse.kernels.integer.numbers.gemmlowp import table_of
from jfuse.kernels.integer.numbers.inverse_root import inverse_root
from jfuse.kernels.integer.numbers.wide_tables import interpolated_logistic, interpolated_tanh, of_words

_INPUT, _FORGET, _CELL, _OUTPUT = range(4)
_H, _C = 18, 19
_GATE_BITS = 3
_ABREAST = 16
"""Numbers that LiteRT takes together on arm64, with another rounding.   Source: optimized/neon_tensor_utils.cc"""


def _takes_sequence(types: IntegerTypes, options: Params) -> bool:
    return _takes_micro(types, options) if types.rounding == "tflm" else _takes(types, options)


def _takes_micro(types: IntegerTypes, options: Params) -> bool:
    """Whether tflite-micro takes it: without coupled gates, peepholes, projections and norms."""
    states = types.dtypes(0, _H, _C)
    scaled = [t for i, t in enumerate(types.inputs) if t is not None and not 12 <= i < 16]
    present = {i for i, t in enumerate(types.inputs) if t is not None}
    if present != {0, *range(1, 9), *range(12, 16), _H, _C} or not all(map(is_per_tensor, scaled)):
        return False
    if states == (DType.i16, DType.i16, DType.i16) and (types.zero_point(0), types.zero_point(_H)) != (0, 0):
        return False
    known = present - {0, _H, _C} <= types.constants and not options.get("diagonal_recurrent_tensors")
    return known and states[1:] in ((DType.i8, DType.i16), (DType.i16, DType.i16)) and states[0] is states[1]


def _takes(types: IntegerTypes, options: Params) -> bool:
    if types.rounding == "tflm":
        return False  # which has no LSTM of one step
    present = [i for i, t in enumerate(types.inputs) if t is not None]
    scaled = [t for i, t in enumerate(types.inputs) if i in present and i not in (12, 13, 14, 15, 17)]
    states = types.dtypes(0, _H, _C) == (DType.i8, DType.i8, DType.i16)
    if not states or len(types.intermediates) != 5 or not all(map(is_per_tensor, scaled)):
        return False
    if not set(present) - {0, _H, _C} <= types.constants or options.get("diagonal_recurrent_tensors"):
        return False
    if not is_per_tensor(types.intermediates[4]) or (
        20 < len(types.inputs) and _norms(types) and not _scaled_gates(types)
    ):
        return False
    projected, peephole = types.inputs[16] is not None, types.inputs[10] is not None
    return not (projected and peephole) and -15 <= round(np.log2(types.scale(_C))) <= -9


def _norms(types: IntegerTypes) -> bool:
    return len(types.inputs) > 20 and types.inputs[21] is not None


def _scaled_gates(types: IntegerTypes) -> bool:
    gates = types.intermediates[1 if types.inputs[1] is None else 0 : 4]
    return all(map(is_per_tensor, gates))


@unidirectional_sequence_lstm.quantized(_takes_sequence)
def _sequence(types: IntegerTypes, *operands: Array | None, time_major: bool, **options: Any) -> tuple[Array, ...]:
    cell = (MicroCell if types.rounding == "tflm" else _Cell)(types, operands, options)
    x = jnp.asarray(operands[0])
    entering = cell.entering(x if time_major else jnp.swapaxes(x, 0, 1))
    h, c = cell.states()
    (h, c), outputs = jax.lax.scan(cell.step, (h, c), entering)
    return (outputs if time_major else jnp.swapaxes(outputs, 0, 1), *cell.as_given(h, c))


@lstm.quantized(_takes)
def _step(types: IntegerTypes, *operands: Array | None, **options: Any) -> tuple[Array, ...]:
    cell = _Cell(types, operands, options)
    (h, c), _ = cell.step(cell.states(), cell.entering(jnp.asarray(operands[0])))
    return (h, *cell.as_given(h, c))


@dataclass(frozen=True)
class _Gate:
    """The constants of one gate.   by_h, by_c, norm: multipliers"""

    offset: np.ndarray
    by_h: Multiplier
    peephole: np.ndarray | None = None
    by_c: Multiplier | None = None
    coefficients: np.ndarray | None = None
    bias: np.ndarray | None = None
    norm: Multiplier | None = None
    least_variance: int = 0


class _Cell:
    """The constants of one equation."""

    def __init__(self, types: IntegerTypes, operands: Sequence[Any], options: Params) -> None:
        self._types = types
        self._given = (*operands, *[None] * (24 - len(operands)))
        self._options = options
        self._coupled = operands[1] is None
        self._whole = 15 + round(float(np.log2(types.scale(_C))))
        self._gates = {g: self._gate(g) for g in range(4) if not (self._coupled and g == _INPUT)}

    def states(self) -> tuple[Array, Array]:
        """h and c before the first step, in rows.   i8[b,o], i16[b,c]"""
        h, c = (jnp.asarray(self._given[i]) for i in (_H, _C))
        units = self._given[4].shape[0]
        return h.reshape(-1, self._given[8].shape[1]), c.reshape(-1, units)

    def as_given(self, h: Array, c: Array) -> tuple[Array, Array]:
        """States in their shapes."""
        return h.reshape(np.shape(self._given[_H])), c.reshape(np.shape(self._given[_C]))

    def entering(self, x: Array) -> dict[int, Array]:
        """Compute the input's part of each gate's sum, at all steps.   x: i8[...,i] -> i16[...,c]"""
        types, sums = self._types, {}
        for gate, total in self._products(x, 1).items():
            offset = -types.zero_point(0) * self._given[1 + gate].astype(np.int32).sum(1, dtype=np.int32)
            offset = offset if self._is_normed else offset + self._given[12 + gate]
            scale = np.float32(types.scale(1 + gate) * types.scale(0)) / self._gate_scale(gate)
            sums[gate] = _in_16_bits(multiplied(total + offset, Multiplier.of(scale))).astype(np.int16)
        return sums

    def step(self, state: tuple[Array, Array], entering: dict[int, Array]) -> tuple[tuple[Array, Array], Array]:
        """The states after one step, and its output.   i8[b,o], i16[b,c]"""
        h, c = state
        by_h = self._products(h, 5)
        forget = _looked_up(self._total(_FORGET, entering, by_h, c), "logistic", _GATE_BITS)
        update = _looked_up(self._total(_CELL, entering, by_h, None), "tanh", _GATE_BITS)
        if self._coupled:
            taken = 32767 - forget
        else:
            taken = _looked_up(self._total(_INPUT, entering, by_h, c), "logistic", _GATE_BITS)
        remembered = shifted_right(forget * c.astype(np.int32), 15)
        added = shifted_right(taken * update, 30 + self._whole - 15)
        c = _in_16_bits(remembered + added)
        clip = self._quantized_clip("cell_clip", self._types.scale(_C), 32767)
        c = (jnp.clip(c, -clip, clip) if clip > 0 else c).astype(np.int16)
        opened = _looked_up(self._total(_OUTPUT, entering, by_h, c), "logistic", _GATE_BITS)
        h = self._output(opened * _looked_up(c, "tanh", self._whole)).astype(np.int8)
        return (h, c), h

    def _products(self, rows: Array, first: int) -> dict[int, Array]:
        """rows times the weights of each gate. first: their position among the operands.   i8[...,k] -> i32[...,c]"""
        weights = np.concatenate([self._given[first + gate] for gate in self._gates])
        parts = jnp.split(integer_products(rows, weights), len(self._gates), -1)
        return dict(zip(self._gates, parts, strict=True))

    def _total(self, gate: int, entering: dict[int, Array], by_h: dict[int, Array], c: Array | None) -> Array:
        """Compute the sum that enters a nonlinearity: i64[b,c] of 16 bits."""
        of = self._gates[gate]
        total = _in_16_bits(multiplied(by_h[gate] + of.offset, of.by_h) + entering[gate])
        if of.peephole is not None and of.by_c is not None and c is not None:
            product = of.peephole * c
            seen = self._by_place(multiplied_half_up(product, of.by_c), multiplied(product, of.by_c), c.shape[-1])
            total = _in_16_bits(seen + total)
        return total if of.norm is None else self._normed(total, of)

    def _normed(self, total: Array, of: _Gate) -> Array:
        """A layer norm over the units of a row."""
        assert of.norm is not None, "a gate with a norm"
        count = total.shape[-1]
        mean = _quotient(1024 * total.sum(-1, keepdims=True), count)
        variance = self._squares(total) * ((1 << 20) // count) - mean * mean
        variance = in_32_bits(_quotient(variance, 1 << 20))
        variance = jnp.where(variance < 1, of.least_variance, variance)
        mantissa, right = inverse_root(variance)
        product = high_mul(in_32_bits(1024 * total - mean), mantissa)
        norm = Multiplier(of.norm.mantissa, of.norm.shift + 12)
        wrapped = wide if self._types.rounding == "arm64" else in_32_bits  # as compilers have what may overflow
        scaled = wrapped(shifted_right(product, right) * of.coefficients + of.bias)
        scaled = _quotient(wrapped(jnp.where(scaled > 0, scaled + 512, scaled - 512)), 1024)
        abreast = shifted_right_half_up(product, right) * of.coefficients + of.bias
        abreast = multiplied_half_up(shifted_right_half_up(abreast, 10), norm)
        return _in_16_bits(self._by_place(abreast, multiplied(scaled, norm), count))

    def _squares(self, total: Array) -> Array:
        """The sum of squares of each row; on arm64 four of them are added in 32 bits.   i64[b,c] -> i64[b,1]"""
        squares = total * total
        if self._types.rounding != "arm64":
            return squares.sum(-1, keepdims=True)
        whole = total.shape[-1] // 8 * 8
        fours = in_32_bits(squares[:, :whole].reshape(len(squares), -1, 4).sum(-1))
        return fours.sum(-1, keepdims=True) + squares[:, whole:].sum(-1, keepdims=True)

    def _by_place(self, abreast: Array, others: Array, row: int) -> Array:
        """Select, by position in a row, the results of numbers computed together, or of those left over at its end.

        row: the number of values that the runtime processes at once.
        """
        if self._types.rounding != "arm64":
            return others
        place = jnp.arange(others.size).reshape(others.shape) % row
        return jnp.where(place < row // _ABREAST * _ABREAST, abreast, others)

    def _output(self, product: Array) -> Array:
        """h of o * tanh(c), in 30 fraction bits."""
        hidden = self._types.intermediates[4]
        scale = np.float32(2.0**-15 / float(scale_of(hidden)) * 2.0**-15)
        steps, zero = multiplied(product, Multiplier.of(scale)), zero_point_of(hidden)
        weights = self._given[16]
        if weights is None:
            return jnp.clip(steps + zero, -128, 127)
        inner = jnp.clip(steps - zero, -128, 127)  # as the kernel has it
        offset = zero * weights.astype(np.int64).sum(1)
        offset = offset if self._given[17] is None else offset + self._given[17]
        scale = np.float32(self._types.scale(16) * scale_of(hidden)) / self._types.scale(_H)
        total, by = integer_products(inner.astype(np.int8), weights) + offset, Multiplier.of(scale)
        total = self._by_place(multiplied_half_up(total, by), multiplied(total, by), total.size)
        h = jnp.clip(total + self._types.zero_point(_H), -128, 127)
        clip = self._quantized_clip("proj_clip", self._types.scale(_H), 127)
        return jnp.clip(h, -clip, clip) if clip > 0 else h

    def _quantized_clip(self, option: str, scale: np.float32, most: int) -> int:
        """A clip in steps, cut off; 0 for none."""
        return int(min(max(float(np.float32(self._options[option]) / scale), -most - 1.0), float(most)))

    @cached_property
    def _is_normed(self) -> bool:
        return self._given[21] is not None

    def _gate_scale(self, gate: int) -> np.float32:
        """Of what enters the norm; without one there are three integer bits."""
        return scale_of(self._types.intermediates[gate]) if self._is_normed else np.float32(2.0**-12)

    def _gate(self, gate: int) -> _Gate:
        types, tensors, scale = self._types, self._given, self._gate_scale(gate)
        offset = -types.zero_point(_H) * tensors[5 + gate].astype(np.int32).sum(1, dtype=np.int32)
        by_h = Multiplier.of(np.float32(types.scale(5 + gate) * types.scale(_H)) / scale)
        constants: dict[str, Any] = {}
        at = {_INPUT: 9, _FORGET: 10, _OUTPUT: 11}.get(gate)
        if at is not None and tensors[at] is not None:
            power = 2.0 ** (self._whole - 15)
            product = np.float32(np.float64(power * float(types.scale(at))) / float(scale))
            constants = {"peephole": tensors[at].astype(np.int64), "by_c": Multiplier.of(product)}
        if self._is_normed:
            norm = types.scale(20 + gate)
            constants |= {
                "coefficients": tensors[20 + gate].astype(np.int64),
                "bias": tensors[12 + gate].astype(np.int64),
            }
            constants |= {"norm": Multiplier.of(norm), "least_variance": max(1, int(np.float32(10000) * norm))}
        return _Gate(offset, by_h, **constants)


def _looked_up(x: Array, function: Literal["logistic", "tanh"], whole: int) -> Array:
    """A function of numbers of 16 bits with so many integer bits.   -> i32[...]"""
    table = jnp.asarray(table_of(function, whole))
    return jnp.take(table, x.astype(np.int32) + 32768, mode="clip").astype(np.int32)


def _in_16_bits(x: Array) -> Array:
    """Clamped to 16 bits."""
    return jnp.clip(x, -32768, 32767)


def _quotient(x: Array, by: int) -> Array:
    """x / by, rounded toward zero.   x: i64[...]"""
    return jnp.sign(x) * (jnp.abs(x) // by)


# UNIDIRECTIONAL_SEQUENCE_LSTM as tflite-micro rounds it: i8 or i16, with a cell state of i16 whose scale is 2^n.
# What enters a gate by the input and by the state is rounded apart and then added, as are both terms of the cell
# state; LOGISTIC and TANH are those of 16 bits. Arm's CMSIS-NN does the same. Source: tflite-micro,
# kernels/lstm_eval.h, kernels/lstm_eval.cc, kernels/lstm_eval_common.cc

_GATES = _INPUT, _FORGET, _CELL, _OUTPUT
_BIAS = 12
_GATE_SCALE = np.float32(2.0**-12)
_UNIT = 2.0**-15  # the scale of what gates and tanh give


class MicroCell:
    """The constants of one equation."""

    def __init__(self, types: IntegerTypes, operands: Sequence[Any], options: Params) -> None:
        self._types = types
        self._given = operands
        self._is_wide = types.dtypes(0) == (DType.i16,)
        self._tanh = interpolated_tanh(types.scale(_C))
        scale = float(types.scale(_C))
        self._kept, self._added = (Multiplier.of(s) for s in (_UNIT, _UNIT * _UNIT / scale))
        self._given_out = Multiplier.of(_UNIT * _UNIT / float(types.scale(_H)))
        self._clip = int(min(float(np.float32(options["cell_clip"]) / types.scale(_C)), 32767.0))

    def states(self) -> tuple[Array, Array]:
        """h and c before the first step.   i8[b,o] or i16[b,o], i16[b,o]"""
        return jnp.asarray(self._given[_H]), jnp.asarray(self._given[_C])

    def as_given(self, h: Array, c: Array) -> tuple[Array, Array]:
        """States in their shapes."""
        return h, c

    def entering(self, x: Array) -> dict[int, Array]:
        """Compute the input's part of each gate's sum, at all steps.   x: i8[...,i] or i16[...,i] -> i64[...,o]"""
        return {gate: self._product(x, 0, 1 + gate, self._given[_BIAS + gate]) for gate in _GATES}

    def step(self, state: tuple[Array, Array], entering: dict[int, Array]) -> tuple[tuple[Array, Array], Array]:
        """The states after one step, and its output."""
        h, c = state
        forget, taken, update = (self._gate(gate, h, entering) for gate in (_FORGET, _INPUT, _CELL))
        remembered = _in_16_bits(multiplied(wide(forget) * wide(c), self._kept))
        c = _in_16_bits(remembered + _in_16_bits(multiplied(wide(taken) * wide(update), self._added)))
        c = (jnp.clip(c, -self._clip, self._clip) if self._clip > 0 else c).astype(np.int16)
        opened = self._gate(_OUTPUT, h, entering)
        steps = multiplied(wide(opened) * wide(of_words(c, self._tanh)), self._given_out)
        ends = np.iinfo(h.dtype)
        h = jnp.clip(steps + self._types.zero_point(_H), ends.min, ends.max).astype(h.dtype)
        return (h, c), h

    def _gate(self, gate: int, h: Array, entering: dict[int, Array]) -> Array:
        total = _in_16_bits(entering[gate] + self._product(h, _H, 5 + gate, None))
        return of_words(total, interpolated_tanh(_GATE_SCALE) if gate == _CELL else interpolated_logistic(_GATE_SCALE))

    def _product(self, x: Array, operand: int, at: int, bias: Array | None) -> Array:
        """A product with weights as FULLY_CONNECTED rounds it.   -> i64[...,o] of 16 bits"""
        types, weights = self._types, self._given[at]
        by_unit = weights.astype(np.int32).sum(1, dtype=np.int32)
        if self._is_wide:
            total = in_two_bytes(x, lambda part: integer_products(part, weights), by_unit)
        else:
            total = integer_products(x, weights) - types.zero_point(operand) * by_unit
        total = total if bias is None else total + bias
        by = Multiplier.of(float(types.scale(operand) * types.scale(at)) / float(_GATE_SCALE))
        return _in_16_bits(multiplied_wide(total, by) if self._is_wide else multiplied(total, by))
