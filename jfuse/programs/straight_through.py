"""A quantized signature as a function of real numbers, whose roundings pass gradients straight through."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jfuse.ir.graph import Atom, Const, Signature
from jfuse.ir.types import TensorType
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.programs.constants import steps_of
from jfuse.quantization.real_numbers.numbers import Computed, as_integers, as_real, ends_of, real_type, rounded_rows
from jfuse.quantization.real_numbers.walker import Exact, RealGraph, in_real_numbers
from jfuse.running.jax_function import named_constants


def straight_through(signature: Signature) -> tuple[Signature, dict[int, str]]:
    """The signature in real numbers, and the names of its weights by the identity of their arrays.

    Rounded values pass their gradient on; values that are clipped at the ends of a type have none.
    """
    policy = _StraightThrough()
    real = in_real_numbers(signature, policy)
    named = named_constants(signature.graph)
    return real, {id(policy.exact.get(const, const).array): name for name, const in named.items()}


@dataclass
class _StraightThrough(Exact):
    exact: dict[Const, Const] = field(default_factory=dict)

    def weight(self, real: RealGraph, const: Const) -> Atom:
        self.exact[const] = exact = real.weight(const)
        if not is_quantized(const.type):
            return exact
        # Rounded at each use: a body does not see the values of another graph.
        return real.apply(Computed("computed.weights", (exact.type,), partial(_as_weights, const)), exact)

    def stored(self, real: RealGraph, value: Atom, stored: TensorType) -> Atom:
        return real.apply(Computed("computed.straight_through", (real_type(stored),), partial(_rounded, stored)), value)

    def rows(self, real: RealGraph, value: Atom) -> Atom:
        return real.apply(Computed("computed.straight_rows", (value.type,), _rows), value)


def _straight(exact: Any, rounded: Any) -> Any:
    return exact + jax.lax.stop_gradient(rounded.astype(exact.dtype) - exact)


def _rounded(stored: TensorType, array: Any) -> Any:
    low, high = ends_of(stored)
    clipped = jnp.clip(array, jnp.float32(low), jnp.float32(high))
    return _straight(clipped, as_real(as_integers(array, stored), stored.quantization))


def _rows(array: Any) -> Any:
    return _straight(array, rounded_rows(array))


def _as_weights(stored: Const, array: Any) -> Any:
    return _straight(array, as_real(steps_of(array, stored), stored.quantization))
