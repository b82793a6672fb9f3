"""UNIDIRECTIONAL_SEQUENCE_LSTM as tflite-micro rounds it: i8 or i16, with a cell state of i16 whose scale is 2^n.

What enters a gate by the input and by the state is rounded apart and then added, as are both terms of the cell state;
LOGISTIC and TANH are those of 16 bits. Arm's CMSIS-NN does the same.
Source: tflite-micro, kernels/lstm_eval.h, kernels/lstm_eval.cc, kernels/lstm_eval_common.cc
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.numbers.exact_products import in_two_bytes, integer_products
from jfuse.kernels.integer.numbers.fixed_point import Multiplier, multiplied, multiplied_wide, wide
from jfuse.kernels.integer.numbers.wide_tables import interpolated_logistic, interpolated_tanh, of_words

_GATES = _INPUT, _FORGET, _CELL, _OUTPUT = range(4)
_H, _C = 18, 19
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


def _in_16_bits(x: Array) -> Array:
    return jnp.clip(x, -32768, 32767)
