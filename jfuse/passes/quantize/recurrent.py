"""LSTMs and SVDFs in integers: what the kernels of all runtimes take together as operands and intermediate tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, TensorType
from jfuse.passes.quantize.arrays import BIAS, LAST_STEP, activations_in, bias_in, least_scale, weights_in
from jfuse.passes.quantize.parameters import parameters, real_ends
from jfuse.quantization.recipe import QuantizeRule
from jfuse.tflite.runtime.quantized import GateOperands, IntegerLstm, IntegerSvdf

_EIGHT_BITS = QuantizeRule("integer")
RangeOfPart = Callable[[str], tuple[float, float]]
BiasOfGate = Callable[[int, int | None, Const], Atom | None]
"""The bias of a gate by the positions of its weights of the inputs and of itself, and these weights in integers."""
_GATE_STEP = 2.0**-12  # of what the kernel adds up in a gate
_OF_NORMS = 2.0**-10
"""Factor of normed gates before the kernel adds a bias: the bias has the scale of the coefficients times this."""


def integer_lstm(
    eqn: Eqn,
    recurrence: IntegerLstm,
    taken: Mapping[int, Atom],
    outputs: tuple[Var, ...],
    part: RangeOfPart,
    bias_of: BiasOfGate,
) -> Eqn:
    """An LSTM equation with its weights, biases and states in integers.

    taken: the operands that are data and states, in their types. outputs: the results in theirs. part: the ranges of
    inner values. bias_of: the biases of gates.
    """
    operands = dict(enumerate(eqn.inputs)) | dict(taken)
    data, dtype = _quantization(taken[recurrence.data]), taken[recurrence.data].type.dtype
    intermediates = [Var(TensorType((0,), DType.f32)) for _ in range(eqn.op.intermediates)]
    for gate in recurrence.gates:
        if eqn.inputs[gate.weights] is not None:
            operands |= _gate(eqn, gate, data.scale[0], BIAS[dtype], bias_of)
    for gate, quantization in _totals(eqn, recurrence, part):
        intermediates[gate.intermediate] = _intermediate(quantization, DType.i16)
    hidden = _quantization(outputs[0])
    if eqn.inputs[recurrence.projection[0]] is not None:
        # The kernel takes the zero point off where it should add it: a scale without one.
        hidden = parameters(*part("hidden"), dtype, symmetric=True)
        operands |= _product(eqn, *recurrence.projection, hidden.scale[0], BIAS[dtype])
    intermediates[recurrence.hidden] = _intermediate(hidden, dtype)
    inputs = tuple(operands[i] for i in range(len(eqn.inputs)))
    return replace(eqn, inputs=inputs, outputs=outputs, intermediates=tuple(intermediates))


def wraps_around(eqn: Eqn, recurrence: IntegerLstm, slots: Mapping[int, tuple[DType, Quantization]]) -> bool:
    """Whether products of an LSTM's gates may not fit in the 32 bits in which the kernel brings them to its steps.

    slots: the types of what is read. The kernel shifts sums to the left where one of their steps is more than one of
    the gate's, which is 2^-12: a total of 524,288 or more would wrap around (MultiplyByQuantizedMultiplier). What gates
    before a layer norm add up has steps of its own.
    """
    for gate in recurrence.gates:
        products = ((gate.weights, recurrence.data, gate.bias), (gate.recurrent, recurrence.output_state, None))
        for weights, read, bias in products if eqn.inputs[gate.norm] is None else ():
            matrix, added = eqn.inputs[weights], None if bias is None else eqn.inputs[bias]
            if not isinstance(matrix, Const) or not matrix.array.any():
                continue
            dtype, quantization = slots[read]
            sizes = np.abs(matrix.array.astype(np.float64))
            step = sizes.max() / LAST_STEP[DType.i8] * quantization.scale[0]
            total = sizes.sum(-1).max() * max(map(abs, real_ends(dtype, quantization)))
            total += float(np.abs(added.array).max()) if isinstance(added, Const) else 0.0
            if total / step * 2.0 ** max(0, np.frexp(step / _GATE_STEP)[1]) >= 2.0**31:
                return True
    return False


def integer_svdf(eqn: Eqn, recurrence: IntegerSvdf, taken: Mapping[int, Atom], outputs: tuple[Var, ...]) -> Eqn:
    """An SVDF equation with its weights and bias in integers.   taken, outputs: as for an LSTM

    tflite-micro does not run without a bias. Sums have 32 bits: the time weights get a scale with which neither these
    nor the bias can be too large.
    """
    operands = dict(enumerate(eqn.inputs)) | dict(taken)
    data, state = (_quantization(taken[i]).scale[0] for i in recurrence.read)
    times, bias = eqn.inputs[recurrence.times], eqn.inputs[recurrence.bias]
    assert isinstance(times, Const), "weights are constants"
    if bias is None:
        units = outputs[0].type.shape[-1]
        bias = Const(np.zeros(int(units), np.float32))
    assert isinstance(bias, Const), "weights are constants"
    sizes = np.abs(times.array.astype(np.float64))
    of_sums = sizes.sum(1).max() * eqn.params["rank"] * 2**15 / (LAST_STEP[DType.i32] / 2)
    scale = max(
        sizes.max() / recurrence.time_steps, of_sums, *least_scale(bias, state, DType.i32), np.finfo(np.float32).tiny
    )
    operands |= _product(eqn, recurrence.features, None, data, DType.i32)
    operands[recurrence.times] = activations_in(times, DType.i16, Quantization((float(np.float32(scale)),), (0,)))
    operands[recurrence.bias] = bias_in(bias, np.array([state * float(np.float32(scale))]), DType.i32)
    return replace(eqn, inputs=tuple(operands[i] for i in range(len(eqn.inputs))), outputs=outputs)


def _totals(eqn: Eqn, recurrence: IntegerLstm, part: RangeOfPart) -> list[tuple[GateOperands, Quantization]]:
    """The parameters of gates' sums before their layer norm; without a norm the kernel has a scale of its own."""
    of_gate = {g: parameters(*part(g.part), DType.i16) for g in recurrence.gates if eqn.inputs[g.norm] is not None}
    if not of_gate:
        return []
    any_of_them = next(iter(of_gate.values()))  # of a gate that is not there the kernel reads a scale as well
    return [(gate, of_gate.get(gate, any_of_them)) for gate in recurrence.gates]


def _quantization(atom: Atom) -> Quantization:
    quantization = atom.type.quantization
    assert quantization is not None, "a value in integers"
    return quantization


def _intermediate(quantization: Quantization, dtype: DType) -> Var:
    """A tensor without elements, from which the kernel reads the scale."""
    return Var(TensorType((0,), dtype, quantization))


def _gate(eqn: Eqn, gate: GateOperands, input_scale: float, bias_type: DType, bias_of: BiasOfGate) -> dict[int, Const]:
    """The constants of a gate.   bias_type: integers that hold sums of products"""
    bias_place = gate.bias if eqn.inputs[gate.norm] is None else None
    constants = _product(eqn, gate.weights, bias_place, input_scale, bias_type, bias_of)
    constants |= _product(eqn, gate.recurrent, None, 1.0, bias_type)
    for place in (gate.peephole, gate.norm):
        atom = None if place is None else eqn.inputs[place]
        if place is not None and isinstance(atom, Const):
            constants[place] = _vector(atom)
    bias = eqn.inputs[gate.bias]
    if gate.norm in constants and isinstance(bias, Const):
        scale = np.array([_quantization(constants[gate.norm]).scale[0] * _OF_NORMS])
        constants[gate.bias] = bias_in(bias, scale, bias_type)
    return constants


def _product(
    eqn: Eqn,
    weights: int,
    bias: int | None,
    input_scale: float,
    dtype: DType,
    bias_of: BiasOfGate | None = None,
) -> dict[int, Const]:
    """Weights of one scale, and the bias in the scale of their products.

    dtype: of the bias. bias_of: the bias for weights in integers; by default the equation's own.
    """
    matrix, added = eqn.inputs[weights], None if bias is None else eqn.inputs[bias]
    assert isinstance(matrix, Const), "weights are constants"
    least = least_scale(added, input_scale, dtype) if isinstance(added, Const) else None
    constants = {weights: weights_in(matrix, _EIGHT_BITS, "tensor", least_scale=least)}
    added = added if bias_of is None or bias is None else bias_of(weights, bias, constants[weights])
    if bias is not None and isinstance(added, Const):
        scale = np.array([_quantization(constants[weights]).scale[0] * input_scale])
        constants[bias] = bias_in(added, scale, dtype)
    return constants


def _vector(const: Const) -> Const:
    """Weights that multiply element by element, in i16."""
    largest = float(np.abs(const.array).max(initial=0))
    return activations_in(const, DType.i16, parameters(-largest, largest, DType.i16))
