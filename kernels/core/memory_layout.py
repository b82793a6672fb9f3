"""The memory layout of arrays: kernels choose it in programs for many samples on a CPU, elsewhere XLA does.

A layout is no part of what a kernel computes, and programs that state one cannot be exported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint

from jfuse.kernels.core.op import Array

_CHOSEN: ContextVar[bool] = ContextVar("kernels choose layouts", default=False)


@contextmanager
def choosing_layouts(chosen: bool) -> Iterator[None]:
    """Whether kernels choose layouts in the program of jax that is traced inside."""
    token = _CHOSEN.set(chosen)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def may_choose_layouts() -> bool:
    """Whether `transposed` and `pixels_outermost` may be called."""
    return _CHOSEN.get()


def transposed(matrix: Array) -> Array:
    """The transposed matrix, as such in memory: fused into a loop it would be read element by element."""
    columns = with_layout_constraint(matrix, Layout((1, 0)))
    return with_layout_constraint(columns.T, Layout((0, 1)))


@jax.custom_batching.custom_vmap
def pixels_outermost(image: Array) -> Array:
    """f[b,h,w,c] as it is, but in memory as [h,w,b,c], samples of a vmap beside b.

    A padding asks at each pixel whether it lies inside; then it does so for all samples at once, around the loops that
    are vectorized: a convolution to 16 channels and a depthwise one after it take half the time.
    """
    return with_layout_constraint(image, Layout((1, 2, 0, 3)))


@pixels_outermost.def_vmap
def _of_samples(samples: int, batched: Sequence[bool], images: Array) -> tuple[Array, bool]:
    together = pixels_outermost(jnp.reshape(images, (-1, *images.shape[2:])))
    return jnp.reshape(together, images.shape), True
