"""The LSTM cell that TFLite's three LSTM ops share: its gates, one step of it, and what its operands must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jfuse.kernels.core.op import Array
from jfuse.kernels.fused.recurrence import Checks, Step, given, over_time, product, sums, time_first
from jfuse.kernels.nn.activation import activate

GATES = ("input", "forget", "cell", "output")  # in the order of the operands
_EPSILON = 1e-8  # of the layer norm; tflite/kernels/internal/tensor_utils_common.h, kNormalizationConstant
_NONE = (None, None, None, None)

Operands = Sequence[Array | None]


@dataclass(frozen=True)
class LstmGate:
    """The operands of one gate, None where absent; the input gate of coupled gates has none."""

    weights: Array
    recurrent: Array
    peephole: Array
    bias: Array
    norm: Array
    aux: Array

    def total(self, products: Array, cell: Array | None) -> Array:
        """The products of inputs and output state, with the peephole into `cell`."""
        return products if self.peephole is None else products + cell * self.peephole

    def close(self, total: Array) -> Array:
        """Apply layer norm and bias, if there are any, to a gate's total before its nonlinearity."""
        if self.norm is None:
            return total
        centred = total - jnp.mean(total, -1, keepdims=True)
        variance = jnp.mean(centred * centred, -1, keepdims=True)
        return centred / jnp.sqrt(variance + _EPSILON) * self.norm + self.bias


PARTS = ("input_gate", "forget_gate", "cell_gate", "output_gate", "cell", "hidden")
"""Inner values of each step: what enters the nonlinearity of a gate, before its layer norm where there is one, f[b,c];
the new cell state, f[b,c]; the output before the projection, f[b,c]."""


@dataclass(frozen=True)
class LstmCell:
    """The recurrence without its state: gates, projection and options. `op` names it in messages."""

    op: str
    gates: Mapping[str, LstmGate]
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

    @property
    def operands(self) -> list[Array]:
        """All weights in the order of the builtin's operands, None for those that are absent."""
        fields = ("weights", "recurrent", "peephole", "bias", "norm", "aux")
        gates = [getattr(self.gates[g], field) for g in self.computed for field in fields]
        return [*gates, self.projection, self.projection_bias]

    @property
    def aux_weights(self) -> list[Array]:
        """The weights of an auxiliary input, None where absent, of the gates that are computed."""
        return [self.gates[g].aux for g in self.computed]

    def run(
        self,
        x: Array,
        output_state: Array,
        cell_state: Array,
        *,
        time_major: bool,
        aux: Array | None = None,
        backwards: bool = False,
    ) -> tuple[Array, Array, Array]:
        """All steps: every h in a row, and the states after the last step."""
        y, h, c, *_ = self.run_watched(
            (), x, output_state, cell_state, time_major=time_major, aux=aux, backwards=backwards
        )
        return y, h, c

    def run_watched(
        self,
        parts: Sequence[str],
        x: Array,
        output_state: Array,
        cell_state: Array,
        *,
        time_major: bool,
        aux: Array | None = None,
        backwards: bool = False,
    ) -> tuple[Array, ...]:
        """As `run`, then these parts of all steps, f[t,b,c]; without numbers where the cell does not have them."""
        sequences = [time_first(v, time_major) for v in (x, aux) if v is not None]
        states = self._states(sequences[0].shape[1], output_state, cell_state)
        (h, c), (y, *seen) = over_time(self._stepper(parts), states, sequences, backwards=backwards)
        states = jnp.reshape(h, output_state.shape), jnp.reshape(c, cell_state.shape)
        return time_first(y, time_major), *states, *seen

    def run_step(self, x: Array, output_state: Array, cell_state: Array) -> tuple[Array, Array, Array]:
        """One step: h, and both states after it."""
        h, state, c, *_ = self.run_step_watched((), x, output_state, cell_state)
        return h, state, c

    def run_step_watched(
        self, parts: Sequence[str], x: Array, output_state: Array, cell_state: Array
    ) -> tuple[Array, ...]:
        """As `run_step`, then these parts, f[b,c]; without numbers where the cell does not have them."""
        states = self._states(x.shape[0], output_state, cell_state)
        (_, c), (h, *seen) = self._stepper(parts)(states, [jnp.asarray(x)])
        return h, jnp.reshape(h, output_state.shape), jnp.reshape(c, cell_state.shape), *seen

    def _states(self, batch: Any, output_state: Array, cell_state: Array) -> tuple[Array, Array]:
        return jnp.reshape(output_state, (batch, self.width)), jnp.reshape(cell_state, (batch, self.units))

    def _stepper(self, parts: Sequence[str]) -> Step:
        """A step from (h, c) to these, and to (h, *parts)."""
        gates = [self.gates[g] for g in self.computed]
        inputs = [[g.weights for g in gates], *([[g.aux for g in gates]] if gates[0].aux is not None else [])]
        total = sums([jnp.concatenate(w) for w in inputs], jnp.concatenate([g.recurrent for g in gates]))
        # A layer norm comes before the biases.
        bias = jnp.concatenate([g.bias for g in gates]) if gates[0].norm is None else None

        def step(state: tuple[Array, Array], entering: Sequence[Array]) -> tuple[Any, Any]:
            h, c = state
            totals = total(entering, h)
            h, inner = self.step(totals if bias is None else totals + bias, c)
            return (h, inner["cell"]), (h, *(inner.get(part, c[:0]) for part in parts))

        return step

    def step(self, totals: Array, c: Array) -> tuple[Array, dict[str, Array]]:
        """One step from the gates' sums and the cell state to the new output and the inner values (`PARTS`)."""
        parts = dict(zip(self.computed, jnp.split(totals, len(self.computed), -1), strict=True))
        gates, inner = self.gates, {}

        def entering(name: str, cell: Array | None) -> Array:
            inner[f"{name}_gate"] = gates[name].total(parts[name], cell)
            return gates[name].close(inner[f"{name}_gate"])

        forget = jax.nn.sigmoid(entering("forget", c))
        admit = jax.nn.sigmoid(entering("input", c)) if "input" in parts else 1 - forget
        candidate = activate(entering("cell", None), self.activation)
        c = inner["cell"] = _clip(forget * c + admit * candidate, self.cell_clip)
        out = jax.nn.sigmoid(entering("output", c))  # sees the new, clipped cell state
        h = inner["hidden"] = out * activate(c, self.activation)
        if self.projection is None:
            return h, inner
        h = product(h, self.projection)
        h = h if self.projection_bias is None else h + self.projection_bias
        return _clip(h, self.proj_clip), inner

    def check(self, *, diagonal: bool | None = None) -> None:
        """Raise TypeMismatch for weights or options that the kernel refuses, or computes wrongly.

        diagonal: whether recurrent weights may be vectors; None where the op has no such form.
        """
        checks = Checks(self.op)
        _check_gates(self, checks)
        _check_options(self, checks)
        _check_recurrent(self, checks, diagonal)

    def check_operands(self, x: Array, output_state: Array, cell_state: Array, batch: Any) -> None:
        """Raise TypeMismatch for operands of other shapes or dtypes. batch: of x, whose last axis holds the inputs."""
        checks = Checks(self.op)
        _check_weights(self, checks, x.shape[-1])
        for what, state, size in (("output state", output_state, self.width), ("cell state", cell_state, self.units)):
            checks.expect(what, state, (batch, size) if state.ndim == 2 else (batch * size,))
        checks.one_float_dtype([x, output_state, cell_state, *self.operands])


def lstm_cell(
    op: str,
    weights: Operands,
    recurrent: Operands,
    peepholes: Operands,
    biases: Operands,
    projection: Operands,
    *,
    norms: Operands = _NONE,
    aux: Operands = _NONE,
    activation: str,
    cell_clip: float,
    proj_clip: float,
) -> LstmCell:
    """The cell of an op's operands. peepholes: of the input, forget and output gates; projection: weights and bias."""
    first, forget, output = peepholes
    columns = zip(weights, recurrent, (first, forget, None, output), biases, norms, aux, strict=True)
    gates = {name: LstmGate(*map(given, column)) for name, column in zip(GATES, columns, strict=True)}
    matrix, bias = map(given, projection)
    return LstmCell(op, gates, matrix, bias, activation, cell_clip, proj_clip)


def _clip(x: Array, limit: float) -> Array:
    return jnp.clip(x, -limit, limit) if limit > 0 else x


def _check_gates(cell: LstmCell, checks: Checks) -> None:
    """Which optional operands may stand together; the kernel's prepare fails otherwise."""
    gates = cell.gates
    first = gates["input"]
    coupled = first.weights is None
    checks.refuse_unless(
        (first.recurrent is None) == coupled,
        "the input gate needs input and recurrent weights, or neither (coupled gates)",
    )
    # An input gate without weights but with some of aux_input would be one that the kernel does not compute.
    checks.refuse_unless(not coupled or first.aux is None, "the input gate has no weights but those of aux_input")
    checks.refuse_unless((first.bias is None) == coupled, "the input gate has a bias exactly where it has weights")
    peephole = gates["forget"].peephole is not None
    checks.refuse_unless(
        (gates["output"].peephole is not None) == peephole,
        "peephole weights of the forget and output gates come together",
    )
    checks.refuse_unless(
        (first.peephole is not None) == (peephole and not coupled),
        "the input gate has peephole weights exactly where the others have them and gates are not coupled",
    )
    normed = gates["forget"].norm is not None
    for name in ("cell", "output"):
        checks.refuse_unless(
            (gates[name].norm is not None) == normed, "layer norm coefficients come for all gates or for none"
        )
    checks.refuse_unless(
        (first.norm is not None) == (normed and not coupled),
        "the input gate has layer norm coefficients exactly where the others have them and gates are not coupled",
    )
    checks.refuse_unless(
        cell.projection is not None or cell.projection_bias is None, "a projection bias without projection weights"
    )


def _check_options(cell: LstmCell, checks: Checks) -> None:
    checks.refuse_unless(cell.cell_clip >= 0 and cell.proj_clip >= 0, "cell_clip and proj_clip are 0 or positive")
    # The float kernel leaves the destination unwritten for NONE, where source and destination differ: garbage.
    checks.refuse_unless(
        cell.activation != "NONE", "fused_activation_function NONE gives undefined values in TFLite's float kernel"
    )
    # The kernel has room for as many values as the cell has units, and writes one for each row of the projection:
    # beyond it stands what other operators need, or the end of the memory.
    fits = isinstance(cell.width, int) and isinstance(cell.units, int) and cell.width <= cell.units
    checks.refuse_unless(fits, f"a projection to {cell.width} values, more than the {cell.units} units of the cell")


def _check_recurrent(cell: LstmCell, checks: Checks, diagonal: bool | None) -> None:
    ranks = {cell.gates[name].recurrent.ndim for name in cell.computed}
    if diagonal is None:
        checks.refuse_unless(ranks == {2}, "recurrent weights are matrices")
        return
    checks.refuse_unless(ranks in ({1}, {2}), "recurrent weights are all matrices, or all vectors")
    # The kernel looks at the rank alone, but the op's version follows from the option.
    checks.refuse_unless(
        diagonal or ranks == {2}, "recurrent weights that are vectors need diagonal_recurrent_tensors=True"
    )
    checks.refuse_unless(
        ranks == {2} or cell.width == cell.units, "recurrent weights that are vectors need outputs as wide as the cell"
    )


def _check_weights(cell: LstmCell, checks: Checks, inputs: Any) -> None:
    units, width = cell.units, cell.width
    for name in cell.computed:
        gate = cell.gates[name]
        recurrent = (units,) if gate.recurrent.ndim == 1 else (units, width)
        checks.expect(f"input weights of the {name} gate", gate.weights, (units, inputs))
        checks.expect(f"recurrent weights of the {name} gate", gate.recurrent, recurrent)
        checks.expect(f"peephole weights of the {name} gate", gate.peephole, (units,))
        checks.expect(f"bias of the {name} gate", gate.bias, (units,))
        checks.expect(f"layer norm coefficients of the {name} gate", gate.norm, (units,))
        if gate.aux is not None:
            checks.expect(f"aux weights of the {name} gate", gate.aux, (units, gate.aux.shape[-1]))
    checks.expect("projection weights", cell.projection, (width, units))
    checks.expect("projection bias", cell.projection_bias, (width,))
