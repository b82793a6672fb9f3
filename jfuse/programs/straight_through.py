"""A quantized signature as a function of real numbers, whose roundings pass gradients straight through."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jfuse.ir.graph import Atom, Const, Eqn, Signature, Var
from jfuse.ir.types import TensorType
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.programs.constants import steps_of
from jfuse.quantization.computed import Computed
from jfuse.quantization.real_graph import RealGraph, ends_of, real_states, rounded_rows
from jfuse.quantization.real_numbers import as_integers, as_real, real_type
from jfuse.running.jax_function import named_constants


def straight_through(signature: Signature) -> tuple[Signature, dict[int, str]]:
    """The signature in real numbers, and the names of its weights by the identity of their arrays.

    Rounded values pass their gradient on; values that are clipped at the ends of a type have none.
    """
    building = _StraightThrough()
    real = replace(signature, graph=building.graph(signature.graph), states=real_states(signature))
    named = named_constants(signature.graph)
    return real, {id(building.reals.get(const, const).array): name for name, const in named.items()}


@dataclass
class _StraightThrough(RealGraph):
    reals: dict[Const, Const] = field(default_factory=dict)
    _pending: list[Eqn] = field(default_factory=list)

    def as_stored(self, stored: TensorType) -> Computed:
        """Real numbers -> those that a type holds."""
        return Computed("computed.straight_through", (real_type(stored),), partial(_rounded, stored))

    def in_rows(self, of: TensorType) -> Computed:
        """Floats -> the rounded values that a kernel with run-time quantization computes with."""
        return Computed("computed.straight_rows", (of,), _rows)

    def _eqn(self, eqn: Eqn) -> list[Eqn]:
        eqns = super()._eqn(eqn)
        before, self._pending = self._pending, []
        return [*before, *eqns]

    def _atom(self, atom: Atom) -> Atom:
        real = super()._atom(atom)
        if not isinstance(atom, Const) or not isinstance(real, Const):
            return real
        self.reals[atom] = real
        if not is_quantized(atom.type):
            return real
        rounded = Var(real.type)  # at each use: a body does not see what another graph binds
        compute = partial(_as_weights, atom)
        self._pending.append(Eqn(Computed("computed.weights", (real.type,), compute), (real,), (rounded,)))
        return rounded


def _straight(exact: Any, rounded: Any) -> Any:
    return exact + jax.lax.stop_gradient(rounded.astype(exact.dtype) - exact)


def _rounded(stored: TensorType, array: Any, chosen: Any) -> Any:
    low, high = ends_of(stored)
    clipped = jnp.clip(array, jnp.float32(low), jnp.float32(high))
    return _straight(clipped, as_real(as_integers(array, stored), stored.quantization))


def _rows(array: Any, chosen: Any) -> Any:
    return _straight(array, rounded_rows(array))


def _as_weights(stored: Const, array: Any) -> Any:
    return _straight(array, as_real(steps_of(array, stored), stored.quantization))
