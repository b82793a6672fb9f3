"""What the processor of this machine lacks for some tests."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

NO_HALVES = "XLA compiles no f16 for processors without F16C (x86 before 2012)"


@cache
def compiles_halves() -> bool:
    """Whether XLA makes programs that compute with f16 here."""
    try:
        jax.jit(lambda x: x.astype(jnp.float16).astype(jnp.float32))(np.ones(4, np.float32))
    except jax.errors.JaxRuntimeError:
        return False
    return True
