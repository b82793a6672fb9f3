"""First and second moments of the inputs of weight products, summed over a calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import Precision

from jfuse.ir.types import DType, TensorType
from jfuse.quantization.tallies import added


@dataclass(frozen=True)
class Moments:
    """A tally of the rows of numbers that a product multiplies its weights with.

    operand: of the product, by position. terms: in a row. squares: whether to keep the sums of the products of any two
        terms, f32[terms + 1, terms + 1], where the last term is 1; else only those with the last term,
        f32[1, terms + 1]: the sum of each term, and how many rows there were. One for all samples of a `vmap`.
    windows: f[...] of the operand -> f[rows, terms]; None where its numbers are the rows, one after the other.
    finite_only: leave out rows with NaNs or infinities.
    """

    operand: int
    terms: int
    squares: bool
    windows: Callable[[Any], Any] | None = None
    finite_only: bool = False

    @property
    def is_total(self) -> bool:
        """Whether one is kept for all samples: always."""
        return True

    def of_finite(self) -> Moments:
        """The same without rows that hold NaNs or infinities."""
        return replace(self, finite_only=True)

    @property
    def type(self) -> TensorType:
        """The type of the tally."""
        return TensorType((self.terms + 1 if self.squares else 1, self.terms + 1), DType.f32)

    def empty(self) -> np.ndarray:
        """The array before the first value."""
        return np.zeros(self.type.shape, np.float32)

    def again(self, kept: Any) -> Any:
        """As `empty`, for a loop in which each sample may take other turns; merged into `kept` after it."""
        return kept * 0

    def merged(self, kept: Any, inner: Any) -> Any:
        """The sum of the tally from before a loop and the loop's own."""
        return added(kept, inner) if isinstance(inner, jax.core.Tracer) else kept + inner

    def update(self, kept: Any, value: Any, weight: Any) -> Any:
        """The array after one more value.   value: f[...]; weight: i32[]"""
        rows = jnp.reshape(value, (-1, self.terms)) if self.windows is None else self.windows(value)
        rows = jnp.asarray(rows, jnp.float32)
        terms = jnp.concatenate([rows, jnp.ones_like(rows[:, :1])], 1)
        if self.finite_only:
            terms = jnp.where(jnp.isfinite(rows).all(1, keepdims=True), terms, 0)
        updated = _UPDATES[self.squares](kept, terms, weight)
        return updated if isinstance(updated, jax.core.Tracer) else np.asarray(updated, np.float32)


def _plainly(kept: Any, terms: Any, weight: Any, *, squares: bool) -> Any:
    return kept + weight * (_products(terms, terms) if squares else jnp.sum(terms, 0, keepdims=True))


def _products(one: Any, other: Any) -> Any:
    return jnp.matmul(one.T, other, precision=Precision.HIGHEST)


def _over_samples(
    squares: bool, samples: int, batched: Sequence[bool], kept: Any, terms: Any, weight: Any
) -> tuple[Any, bool]:
    """The rule of `vmap`: one tally for all samples, or one for each where each has its own already."""
    of_kept, of_terms, of_weight = batched
    if of_kept:  # by a loop that samples leave at different steps
        axes = 0, 0 if of_terms else None, 0 if of_weight else None
        return jax.vmap(partial(_plainly, squares=squares), axes)(kept, terms, weight), True
    together = terms if of_terms else jnp.broadcast_to(terms, (samples, *terms.shape))
    weighed = together * jnp.broadcast_to(weight, (samples,))[:, None, None]
    rows, by_weight = (a.reshape(-1, a.shape[-1]) for a in (together, weighed))
    return kept + (_products(by_weight, rows) if squares else jnp.sum(by_weight, 0, keepdims=True)), False


def _update(squares: bool) -> Callable[..., Any]:
    update = jax.custom_batching.custom_vmap(partial(_plainly, squares=squares))
    update.def_vmap(partial(_over_samples, squares))
    return update


_UPDATES = {squares: _update(squares) for squares in (False, True)}
