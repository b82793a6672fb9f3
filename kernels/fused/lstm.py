"""UNIDIRECTIONAL_SEQUENCE_LSTM: a whole recurrence as one op, with its state as operands and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jfuse.errors import TypeMismatch
from jfuse.ir.dims import same
from jfuse.kernels.activation import activate
from jfuse.kernels.layout import agreed
from jfuse.kernels.op import Array, tfl

_EPSILON = 1e-8  # of the layer norm; tflite/kernels/internal/tensor_utils_common.h, kNormalizationConstant
_FLOATS = ("float32", "float64")  # TFLite has f32; f64 is for proofs


@tfl("UNIDIRECTIONAL_SEQUENCE_LSTM", updates={"output_state": 1, "cell_state": 2})
def unidirectional_sequence_lstm(
    input_: Array,
    input_to_input_weights: Array | None,
    input_to_forget_weights: Array,
    input_to_cell_weights: Array,
    input_to_output_weights: Array,
    recurrent_to_input_weights: Array | None,
    recurrent_to_forget_weights: Array,
    recurrent_to_cell_weights: Array,
    recurrent_to_output_weights: Array,
    cell_to_input_weights: Array | None,
    cell_to_forget_weights: Array | None,
    cell_to_output_weights: Array | None,
    input_gate_bias: Array | None,
    forget_gate_bias: Array,
    cell_gate_bias: Array,
    output_gate_bias: Array,
    projection_weights: Array | None,
    projection_bias: Array | None,
    output_state: Array,
    cell_state: Array,
    input_layer_norm_coefficients: Array | None = None,
    forget_layer_norm_coefficients: Array | None = None,
    cell_layer_norm_coefficients: Array | None = None,
    output_layer_norm_coefficients: Array | None = None,
    /,
    *,
    fused_activation_function: str = "TANH",
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    time_major: bool = False,
    asymmetric_quantize_inputs: bool = False,
    diagonal_recurrent_tensors: bool = False,
) -> tuple[Array, Array, Array]:
    """The LSTM over all steps: (y, h', c'), every h in a row and the state after the last step.

    input: f[b,t,i], or f[t,b,i] if time_major; input weights f[c,i]; recurrent weights f[c,o], or f[c] if diagonal;
    peephole weights, biases and layer norm coefficients f[c]; projection weights f[o,c], bias f[o] (o = c without);
    output_state f[b,o] and cell_state f[b,c], or as vectors of as many elements.
    y: f[b,t,o] or f[t,b,o]; h' and c' as the states. All of one dtype, f32 or f64.

    With pre(g, s) = x W_g' + h R_g' + s * p_g + b_g, or norm(x W_g' + h R_g' + s * p_g) * l_g + b_g, at each step:
    i = sigmoid(pre(input, c)), f = sigmoid(pre(forget, c)), g = act(pre(cell)), c = clip(f * c + i * g, cell_clip),
    o = sigmoid(pre(output, c)), h = o * act(c), and with a projection h = clip(h P' + b, proj_clip).
    Without the weights of the input gate i = 1 - f. Clips of 0 do nothing. norm: zero mean, unit variance over c.
    Source: tflite/kernels/unidirectional_sequence_lstm.cc, tflite/kernels/lstm_eval.cc
    """
    gates = {
        "input": _gate(
            input_to_input_weights,
            recurrent_to_input_weights,
            cell_to_input_weights,
            input_gate_bias,
            input_layer_norm_coefficients,
        ),
        "forget": _gate(
            input_to_forget_weights,
            recurrent_to_forget_weights,
            cell_to_forget_weights,
            forget_gate_bias,
            forget_layer_norm_coefficients,
        ),
        "cell": _gate(
            input_to_cell_weights,
            recurrent_to_cell_weights,
            None,
            cell_gate_bias,
            cell_layer_norm_coefficients,
        ),
        "output": _gate(
            input_to_output_weights,
            recurrent_to_output_weights,
            cell_to_output_weights,
            output_gate_bias,
            output_layer_norm_coefficients,
        ),
    }
    cell = _Cell(gates, projection_weights, projection_bias, fused_activation_function, cell_clip, proj_clip)
    _check_gates(cell)
    _check_options(cell, diagonal_recurrent_tensors)
    _check_operands(cell, input_, output_state, cell_state, time_major)
    return cell.run(input_, output_state, cell_state, time_major)


@dataclass(frozen=True)
class _Gate:
    """The operands of one gate, None where absent; the input gate of coupled gates has none."""

    weights: Array
    recurrent: Array
    peephole: Array
    bias: Array
    norm: Array

    def close(self, total: Array, cell: Array | None) -> Array:
        """What enters the nonlinearity: `total` with the peephole into `cell`, then layer norm and bias."""
        if self.peephole is not None:
            total = total + cell * self.peephole
        if self.norm is None:
            return total
        centred = total - jnp.mean(total, -1, keepdims=True)
        variance = jnp.mean(centred * centred, -1, keepdims=True)
        return centred / jnp.sqrt(variance + _EPSILON) * self.norm + self.bias


def _gate(*operands: Array | None) -> _Gate:
    # As jax arrays already here: an op of NumPy arrays computes in NumPy's promotion, and scan takes jax arrays anyway.
    return _Gate(*(None if o is None else jnp.asarray(o) for o in operands))


@dataclass(frozen=True)
class _Cell:
    """The recurrence without its state: gates, projection and options."""

    gates: Mapping[str, _Gate]
    projection: Array | None
    projection_bias: Array | None
    activation: str
    cell_clip: float
    proj_clip: float

    @property
    def computed(self) -> tuple[str, ...]:
        """The gates that have weights, in the op's order."""
        return tuple(name for name, gate in self.gates.items() if gate.weights is not None)

    @property
    def units(self) -> Any:
        """The size of the cell state."""
        return self.gates["output"].weights.shape[0]

    @property
    def width(self) -> Any:
        """The size of the output state."""
        return self.units if self.projection is None else self.projection.shape[0]

    def run(self, x: Array, output_state: Array, cell_state: Array, time_major: bool) -> tuple[Array, Array, Array]:
        """All steps. The input's part does not wait for the recurrence: one product for all steps and gates."""
        x = jnp.asarray(x) if time_major else jnp.swapaxes(x, 0, 1)
        batch = x.shape[1]
        recurrent = jnp.concatenate([self.gates[g].recurrent for g in self.computed])
        h = jnp.reshape(output_state, (batch, self.width))
        c = jnp.reshape(cell_state, (batch, self.units))

        def step(state: tuple[Array, Array], total: Array) -> tuple[tuple[Array, Array], Array]:
            h, c = self.step(total + self.recur(state[0], recurrent), state[1])
            return (h, c), h

        (h, c), y = jax.lax.scan(step, (h, c), self.input_products(x))
        y = y if time_major else jnp.swapaxes(y, 0, 1)
        return y, jnp.reshape(h, output_state.shape), jnp.reshape(c, cell_state.shape)

    def input_products(self, x: Array) -> Array:
        """x W' for all steps and gates, with the biases unless a norm comes first.   f[t,b,i] -> f[t,b,gates*c]"""
        gates = [self.gates[g] for g in self.computed]
        products = _product(x, jnp.concatenate([g.weights for g in gates]))
        normed = gates[0].norm is not None
        return products if normed else products + jnp.concatenate([g.bias for g in gates])

    def recur(self, h: Array, recurrent: Array) -> Array:
        """h R' for all gates.   f[b,o] -> f[b,gates*c]"""
        if recurrent.ndim == 1:
            return jnp.tile(h, (1, len(self.computed))) * recurrent
        return _product(h, recurrent)

    def step(self, totals: Array, c: Array) -> tuple[Array, Array]:
        """One step from the gates' sums and the cell state to the new output and cell state."""
        parts = dict(zip(self.computed, jnp.split(totals, len(self.computed), -1), strict=True))
        gates = self.gates
        forget = jax.nn.sigmoid(gates["forget"].close(parts["forget"], c))
        admit = jax.nn.sigmoid(gates["input"].close(parts["input"], c)) if "input" in parts else 1 - forget
        candidate = activate(gates["cell"].close(parts["cell"], None), self.activation)
        c = _clip(forget * c + admit * candidate, self.cell_clip)
        out = jax.nn.sigmoid(gates["output"].close(parts["output"], c))  # sees the new, clipped cell state
        h = out * activate(c, self.activation)
        if self.projection is None:
            return h, c
        h = _product(h, self.projection)
        h = h if self.projection_bias is None else h + self.projection_bias
        return _clip(h, self.proj_clip), c


def _product(x: Array, weights: Array) -> Array:
    # Highest precision: the default of GPUs would round the operands to fewer bits.
    return jnp.matmul(x, jnp.transpose(weights), precision=jax.lax.Precision.HIGHEST)


def _clip(x: Array, limit: float) -> Array:
    return jnp.clip(x, -limit, limit) if limit > 0 else x


def _refuse_unless(holds: object, reason: str) -> None:
    if not holds:
        raise TypeMismatch(f"unidirectional_sequence_lstm: {reason}")


def _check_gates(cell: _Cell) -> None:
    """Which optional operands may stand together; the kernel's prepare fails otherwise."""
    gates = cell.gates
    first = gates["input"]
    coupled = first.weights is None
    _refuse_unless(
        (first.recurrent is None) == coupled,
        "the input gate needs input and recurrent weights, or neither (coupled gates)",
    )
    _refuse_unless((first.bias is None) == coupled, "the input gate has a bias exactly where it has weights")
    peephole = gates["forget"].peephole is not None
    _refuse_unless(
        (gates["output"].peephole is not None) == peephole,
        "peephole weights of the forget and output gates come together",
    )
    _refuse_unless(
        (first.peephole is not None) == (peephole and not coupled),
        "the input gate has peephole weights exactly where the others have them and gates are not coupled",
    )
    normed = gates["forget"].norm is not None
    for name in ("cell", "output"):
        _refuse_unless(
            (gates[name].norm is not None) == normed, "layer norm coefficients come for all gates or for none"
        )
    _refuse_unless(
        (first.norm is not None) == (normed and not coupled),
        "the input gate has layer norm coefficients exactly where the others have them and gates are not coupled",
    )
    _refuse_unless(
        cell.projection is not None or cell.projection_bias is None, "a projection bias without projection weights"
    )


def _check_options(cell: _Cell, diagonal: bool) -> None:
    _refuse_unless(cell.cell_clip >= 0 and cell.proj_clip >= 0, "cell_clip and proj_clip are 0 or positive")
    # The float kernel leaves the destination unwritten for NONE, where source and destination differ: garbage.
    _refuse_unless(
        cell.activation != "NONE", "fused_activation_function NONE gives undefined values in TFLite's float kernel"
    )
    ranks = {cell.gates[name].recurrent.ndim for name in cell.computed}
    _refuse_unless(ranks in ({1}, {2}), "recurrent weights are all matrices, or all vectors")
    # The kernel looks at the rank alone, but the op's version follows from the option.
    _refuse_unless(diagonal or ranks == {2}, "recurrent weights that are vectors need diagonal_recurrent_tensors=True")
    _refuse_unless(
        ranks == {2} or cell.width == cell.units, "recurrent weights that are vectors need outputs as wide as the cell"
    )


def _check_operands(cell: _Cell, x: Array, output_state: Array, cell_state: Array, time_major: bool) -> None:
    _refuse_unless(x.ndim == 3, f"the input has rank 3, not {x.ndim}")
    batch, inputs = x.shape[1 if time_major else 0], x.shape[2]
    units, width = cell.units, cell.width
    for name in cell.computed:
        gate = cell.gates[name]
        recurrent = (units,) if gate.recurrent.ndim == 1 else (units, width)
        _expect(f"input weights of the {name} gate", gate.weights, (units, inputs))
        _expect(f"recurrent weights of the {name} gate", gate.recurrent, recurrent)
        _expect(f"peephole weights of the {name} gate", gate.peephole, (units,))
        _expect(f"bias of the {name} gate", gate.bias, (units,))
        _expect(f"layer norm coefficients of the {name} gate", gate.norm, (units,))
    _expect("projection weights", cell.projection, (width, units))
    _expect("projection bias", cell.projection_bias, (width,))
    for what, state, size in (("output state", output_state, width), ("cell state", cell_state, units)):
        _expect(what, state, (batch, size) if state.ndim == 2 else (batch * size,))
    dtypes = {str(o.dtype) for o in (x, output_state, cell_state, *_arrays(cell))}
    _refuse_unless(
        len(dtypes) == 1 and dtypes <= set(_FLOATS),
        f"operands of {', '.join(sorted(dtypes))}; they are all f32, or all f64",
    )


def _expect(what: str, operand: Array | None, shape: tuple[Any, ...]) -> None:
    if operand is None:
        return
    pairs = list(zip(operand.shape, shape, strict=False))
    fits = operand.ndim == len(shape) and all(same(d, e) is not False for d, e in pairs)
    fits = fits and all(same(agreed(e, d), d) for d, e in pairs)
    _refuse_unless(fits, f"{what}: {list(operand.shape)} where {list(shape)} belongs")


def _arrays(cell: _Cell) -> list[Array]:
    operands = [
        getattr(cell.gates[g], field)
        for g in cell.computed
        for field in ("weights", "recurrent", "peephole", "bias", "norm")
    ]
    return [o for o in (*operands, cell.projection, cell.projection_bias) if o is not None]
