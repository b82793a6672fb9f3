"""The simple recurrent cell that TFLite's three RNN ops share: h' = act(x W' + h R' + b)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp

from jfuse.kernels.core.op import Array
from jfuse.kernels.fused.recurrence import Checks, Step, over_time, sums, time_first
from jfuse.kernels.nn.activation import activate


@dataclass(frozen=True)
class RnnCell:
    """The recurrence without its state. weights: f[u,i]; recurrent: f[u,u]; bias: f[u]; aux: f[u,a] or None.

    `op` names it in messages.
    """

    op: str
    weights: Array
    recurrent: Array
    bias: Array
    activation: str
    aux: Array | None = None

    @property
    def aux_weights(self) -> list[Array | None]:
        """The weights of an auxiliary input, None where absent."""
        return [self.aux]

    def run(
        self, x: Array, state: Array, *, time_major: bool, aux: Array | None = None, backwards: bool = False
    ) -> tuple[Array, Array]:
        """All steps: every h in a row, and the one after the last step."""
        sequences = [time_first(v, time_major) for v in (x, aux) if v is not None]
        h, y = over_time(self._stepper(), jnp.asarray(state), sequences, backwards=backwards)
        return time_first(y, time_major), h

    def run_step(self, x: Array, state: Array) -> Array:
        """One step: the new h."""
        return self._stepper()(jnp.asarray(state), [jnp.asarray(x)])[1]

    def _stepper(self) -> Step:
        weights = [jnp.asarray(w) for w in (self.weights, self.aux) if w is not None]
        total, bias = sums(weights, jnp.asarray(self.recurrent)), jnp.asarray(self.bias)

        def step(h: Array, entering: Sequence[Array]) -> tuple[Array, Array]:
            h = activate(total(entering, h) + bias, self.activation)
            return h, h

        return step

    def check(self, x: Array, state: Array, batch: object) -> None:
        """Raise TypeMismatch for operands of other shapes or dtypes. batch: of x, whose last axis holds the inputs."""
        checks = Checks(self.op)
        checks.rank("the recurrent weights matrix", self.recurrent, 2)
        units = self.recurrent.shape[0]
        checks.expect("input weights", self.weights, (units, x.shape[-1]))
        checks.expect("recurrent weights", self.recurrent, (units, units))
        checks.expect("bias", self.bias, (units,))
        if self.aux is not None:
            checks.expect("aux weights", self.aux, (units, self.aux.shape[-1]))
        checks.expect("hidden state", state, (batch, units))
        checks.one_float_dtype([x, self.weights, self.recurrent, self.bias, self.aux, state])
