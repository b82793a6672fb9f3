"""Shared code of the fused recurrent ops: products, the walk over the steps, checks of operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import same
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array

_FLOATS = ("float32", "float64")  # TFLite has f32; f64 is for proofs

Step = Callable[[Any, Sequence[Array]], tuple[Any, Array]]
"""One step: the state and what enters the step -> the new state and the step's output."""

Sums = Callable[[Sequence[Array], Array], Array]
"""The inputs of a step, f[b,i] each, and h f[b,o] -> the sum of their products with the weights, f[b,c]."""


def product(x: Array, weights: Array) -> Array:
    """x W'.   f[..., i], f[c,i] -> f[..., c]"""
    # Highest precision: the default of GPUs would round the operands to fewer bits.
    return jnp.matmul(x, jnp.transpose(weights), precision=jax.lax.Precision.HIGHEST)


def sums(inputs: Sequence[Array], recurrent: Array) -> Sums:
    """x W' + ... + h R' of a step, as one product of [x, ..., h] and [W, ..., R]'.

    inputs: f[c,i] for each of what enters; recurrent: f[c,o], or f[n*o] for n products h * R side by side.

    One sum of all terms, in highest precision. The inputs' part is not computed ahead for all steps: on CPU (jaxlib
    0.10.2, 64 rows and more) a step then takes 1.3 to 3 times as long, as the sums of all steps are written and read
    again, and a slice at the loop's counter beside the nonlinearities keeps XLA from vectorizing these. What it costs:
    with one row and over a thousand inputs the product ahead would be up to 2.5 times as fast.
    """
    dense = recurrent.ndim == 2
    joined = jnp.concatenate([*inputs, recurrent] if dense else [*inputs], 1)
    # Transposed once, before the loop: XLA would move the transpose into the product, which is slow for single rows.
    weights = jax.lax.optimization_barrier(jnp.transpose(joined))

    def total(entering: Sequence[Array], h: Array) -> Array:
        rows = jnp.concatenate([*entering, h] if dense else [*entering], -1)
        products = jnp.matmul(rows, weights, precision=jax.lax.Precision.HIGHEST)
        return products if dense else products + jnp.tile(h, (1, recurrent.shape[0] // h.shape[-1])) * recurrent

    return total


def time_first(x: Array, time_major: bool) -> Array:
    """f[t,b,i] of a sequence in either layout, and a sequence of either layout of that."""
    return jnp.asarray(x) if time_major else jnp.swapaxes(x, 0, 1)


def over_time(step: Step, state: Any, sequences: Sequence[Array], *, backwards: bool = False) -> tuple[Any, Array]:
    """The last state and the outputs of all steps; backwards: from the last step to the first, outputs in place."""
    return jax.lax.scan(step, state, tuple(sequences), reverse=backwards)


def given(operand: Array | None) -> Array | None:
    """An operand as a jax array: on NumPy arrays an op computes in NumPy's promotion, and scan takes jax arrays."""
    return None if operand is None else jnp.asarray(operand)


@dataclass(frozen=True)
class Checks:
    """Checks of an op's operands, with messages that name the op."""

    op: str

    def refuse_unless(self, holds: object, reason: str) -> None:
        """Raise TypeMismatch with the reason where a condition does not hold."""
        if not holds:
            raise TypeMismatch(f"{self.op}: {reason}")

    def expect(self, what: str, operand: Array | None, shape: tuple[Any, ...]) -> None:
        """Raise TypeMismatch where an operand is there and has another shape; open sizes are equated."""
        if operand is None:
            return
        pairs = list(zip(operand.shape, shape, strict=False))
        fits = operand.ndim == len(shape) and all(same(d, e) is not False for d, e in pairs)
        fits = fits and all(same(agreed(e, d), d) for d, e in pairs)
        self.refuse_unless(fits, f"{what}: {list(operand.shape)} where {list(shape)} belongs")

    def rank(self, what: str, operand: Array, rank: int) -> None:
        """Raise TypeMismatch where an operand has another rank."""
        self.refuse_unless(operand.ndim == rank, f"{what} has rank {rank}, not {operand.ndim}")

    def one_float_dtype(self, operands: Iterable[Array | None]) -> None:
        """Raise TypeMismatch unless all operands that are there are f32, or all f64."""
        dtypes = {str(o.dtype) for o in operands if o is not None}
        self.refuse_unless(
            len(dtypes) == 1 and dtypes <= set(_FLOATS),
            f"operands of {', '.join(sorted(dtypes))}; they are all f32, or all f64",
        )
