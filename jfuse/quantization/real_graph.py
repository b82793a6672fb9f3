"""The graph of a quantized file in floats: its weights as real numbers, its activations rounded or not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Signature, State, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.integer_types import is_per_tensor, is_quantized, quantizes_as_it_runs
from jfuse.kernels.core.operand import namespace
from jfuse.quantization.computed import Computed
from jfuse.quantization.real_numbers import as_integers, as_real, real_const, real_type

_HYBRID = 127
"""Steps on either side of 0 that kernels have for floats which they quantize as they run. XNNPACK has twice as many."""


class Activations(Enum):
    """What becomes of activations: floats as they are, cut off at the ends of their types, or rounded to their steps.

    The values are those of `RealSignature.chosen`.
    """

    EXACT = 0
    CUT_OFF = 1
    ROUNDED = 2


@dataclass(frozen=True)
class Weight:
    """A constant that is rounded in the file: its real numbers, f32[...], and the width of their steps, as many."""

    array: np.ndarray
    step: np.ndarray


@dataclass(frozen=True)
class RealSignature:
    """A signature with real numbers throughout.

    weights: the constants that were rounded. chosen: the constant, f32[1], that says what becomes of activations: one
    program, which takes it as an argument, does all of it.
    """

    signature: Signature
    weights: tuple[Weight, ...]
    chosen: np.ndarray


def real_signature(signature: Signature) -> RealSignature:
    """The signature in floats.

    QUANTIZE and DEQUANTIZE are left out; activation functions stay, fused ones too, and so do ranges that end at 0:
    these are the RELU of many files. Values in the bodies of loops and branches are as those outside.
    """
    building = RealGraph()
    graph = building.graph(signature.graph)
    real = replace(signature, graph=graph, states=real_states(signature))
    return RealSignature(real, tuple(building.weights.values()), building.chosen.array)


def real_states(signature: Signature) -> tuple[State, ...]:
    """The states of a signature with real numbers before the first call."""
    states = signature.states
    inputs = signature.graph.inputs[len(signature.graph.inputs) - len(states) :]
    return tuple(replace(s, initial=_real_like(s.initial, v.type)) for s, v in zip(states, inputs, strict=True))


@dataclass
class RealGraph:
    """Builds the graph.   chosen: as `RealSignature` has it; values: what each is here; weights: by constant"""

    chosen: Const = field(default_factory=lambda: Const(np.zeros(1, np.float32)))
    values: dict[Var, Atom] = field(default_factory=dict)
    weights: dict[Const, Weight] = field(default_factory=dict)
    _consts: dict[Const, Const] = field(default_factory=dict)

    def graph(self, graph: Graph) -> Graph:
        """The graph in real numbers, bodies included."""
        inputs = tuple(self._renewed(v) for v in graph.inputs)
        eqns: list[Eqn] = []
        for var in graph.inputs:
            eqns += self._stored(var)
        for eqn in graph.eqns:
            eqns += self._eqn(eqn)
        outputs = tuple(self._atom(a) for a in graph.outputs)
        return replace(graph, inputs=inputs, eqns=tuple(eqns), outputs=outputs)

    def _eqn(self, eqn: Eqn) -> list[Eqn]:
        operand = eqn.inputs[0] if eqn.inputs else None
        is_moved = eqn.op.scales is not None and operand is not None and self._is_real(operand)
        if is_moved and operand is not None:
            self.values[eqn.outputs[0]] = self._atom(operand)
            return self._stored(eqn.outputs[0])
        inputs = [None if a is None else self._atom(a) for a in eqn.inputs]
        before: list[Eqn] = []
        if quantizes_as_it_runs(eqn):
            given = inputs[0]
            assert given is not None, "an operand"
            inputs[0] = rounded = Var(given.type)
            before = [Eqn(self.in_rows(given.type), (given, self.chosen), (rounded,))]
        outputs = tuple(self._renewed(v) for v in eqn.outputs)
        bodies = tuple(self.graph(body) for body in eqn.bodies)
        is_changed = any(is_quantized(a.type) for a in (*eqn.inputs, *eqn.outputs) if a is not None)
        new = replace(eqn, inputs=tuple(inputs), outputs=outputs, bodies=bodies)
        if is_changed:
            new = replace(new, intermediates=(), version=None)
        return [*before, new, *(e for v in eqn.outputs for e in self._stored(v))]

    def _is_real(self, atom: Atom) -> bool:
        """Whether an operand of QUANTIZE or DEQUANTIZE is in f32 here."""
        return self._atom(atom).type.dtype is DType.f32

    def _renewed(self, var: Var) -> Var:
        self.values[var] = renewed = Var(real_type(var.type), var.name, var.value)
        return renewed

    def _stored(self, var: Var) -> list[Eqn]:
        """A value as its type holds it, from now on."""
        if not is_per_tensor(var.type):
            return []
        value = self.values[var]
        self.values[var] = told = Var(real_type(var.type))
        return [Eqn(self.as_stored(var.type), (value, self.chosen), (told,))]

    def as_stored(self, stored: TensorType) -> Computed:
        """Real numbers, a choice -> what the choice makes of them for a type."""
        return Computed("computed.as_stored", (real_type(stored),), partial(_as_chosen, stored))

    def in_rows(self, of: TensorType) -> Computed:
        """Floats, a choice -> the floats, or as many steps of them as a byte has, with a scale for each row."""
        return Computed("computed.rounded_rows", (of,), _rounded_rows)

    def _atom(self, atom: Atom) -> Atom:
        if isinstance(atom, Var):
            return self.values[atom]
        if atom not in self._consts:
            self._consts[atom] = found = _real_weight(atom)
            if found is not atom:
                self.weights[atom] = Weight(found.array, _steps(atom))
        return self._consts[atom]


def _real_weight(const: Const) -> Const:
    if const.type.dtype is DType.f16:
        return Const(const.array.astype(np.float32), const.name)
    return real_const(const) if is_quantized(const.type) else const


def _real_like(initial: Const, stored: TensorType) -> Const:
    """The first value of a state as real numbers.   stored: the type that the graph takes it in"""
    if not is_quantized(stored):
        return initial
    return Const(np.asarray(as_real(initial.array, stored.quantization), np.float32), initial.name)


def _steps(const: Const) -> np.ndarray:
    """How far apart neighbours are at each number of a rounded constant: f32 of its shape."""
    if const.type.dtype is DType.f16:
        return np.asarray(np.spacing(np.abs(const.array)), np.float32)
    quantization = const.quantization
    assert quantization is not None, "is_quantized"
    ones = np.ones(const.array.shape, np.int32)
    zero = replace(quantization, zero_point=(0,) * len(quantization.scale))
    return np.broadcast_to(np.asarray(as_real(ones, zero), np.float32), const.array.shape)


def _rounded_rows(array: Any, chosen: Any) -> Any:
    xp = namespace(array, chosen)
    return xp.where(chosen[0] == Activations.ROUNDED.value, rounded_rows(array), array).astype(array.dtype)


def rounded_rows(array: Any) -> Any:
    """Floats in as many steps as a byte has, with a scale for each row."""
    xp = namespace(array)
    axes = tuple(range(1, array.ndim)) or None
    scale = xp.max(xp.abs(array), axis=axes, keepdims=True, initial=0.0) / _HYBRID
    whole = xp.where(scale > 0, scale, 1.0)
    return xp.rint(array / whole) * whole


def ends_of(stored: TensorType) -> tuple[float, float]:
    """The least and the greatest real number that the integers of a type with one scale stand for."""
    quantization = stored.quantization
    assert quantization is not None, "is_per_tensor"
    info, scale, zero = np.iinfo(stored.dtype.numpy), quantization.scale[0], quantization.zero_point[0]
    return scale * (int(info.min) - zero), scale * (int(info.max) - zero)


def _as_chosen(stored: TensorType, array: Any, chosen: Any) -> Any:
    xp = namespace(array, chosen)
    low, high = ends_of(stored)
    rounded = as_real(as_integers(array, stored), stored.quantization)
    cut_off = xp.clip(array, np.float32(low), np.float32(high))
    at_zero = xp.clip(array, np.float32(low if low == 0 else -np.inf), np.float32(high if high == 0 else np.inf))
    found = xp.where(chosen[0] == Activations.CUT_OFF.value, cut_off, at_zero)
    return xp.where(chosen[0] == Activations.ROUNDED.value, rounded, found).astype(np.float32)
