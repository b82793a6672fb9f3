"""Programs that run once or twice: what counts is how soon they are compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax

# On CPU these two take four fifths off the compilation of a proof (XLA of jaxlib 0.10.2).
_QUICK: dict[str, bool | int] = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


def quick_jit(function: Callable[..., Any], **options: Any) -> jax.stages.Wrapped:
    """As `jax.jit`, compiled with as little optimization as XLA offers: for programs that run on few samples."""
    return jax.jit(function, compiler_options=dict(_accepted()), **options)


@cache
def _accepted() -> tuple[tuple[str, bool | int], ...]:
    """The options that the installed XLA knows: it refuses others, and has no list of them."""
    return tuple((name, value) for name, value in _QUICK.items() if _compiles_with(name, value))


def _compiles_with(name: str, value: bool | int) -> bool:
    try:
        jax.jit(lambda x: x + 1, compiler_options={name: value}).lower(0).compile()
    except Exception as error:  # XLA's own class of error, which jax does not export under a stable name
        if name in str(error):
            return False
        raise
    return True
