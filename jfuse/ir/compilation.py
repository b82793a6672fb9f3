"""Programs that run once or twice: what counts is how soon they are compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import jax

# On CPU the first two take four fifths off the compilation of a proof (XLA of jaxlib 0.10.2); the third some more:
# the code is generated in one piece and not in some for each core.
_QUICK: dict[str, bool | int] = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


def quick_jit(function: Callable[..., Any], **options: Any) -> jax.stages.Wrapped:
    """As `jax.jit`, compiled with as little optimization as XLA offers: for programs that run on few samples."""
    return jax.jit(function, compiler_options=quick_options(), **options)


def quick_options() -> dict[str, bool | int]:
    """The options of XLA for as little optimization as it offers."""
    return dict(_accepted())


@cache
def _accepted() -> tuple[tuple[str, bool | int], ...]:
    return tuple(known_options(_QUICK).items())


def known_options(options: Mapping[str, bool | int]) -> dict[str, bool | int]:
    """The options that the installed XLA knows: it refuses others, and has no list of them."""
    known = dict(options)
    while (unknown := _refused(known)) is not None:
        del known[unknown]
    return known


def _refused(options: Mapping[str, bool | int]) -> str | None:
    """An option that XLA does not know; None where it compiles with all of them."""
    try:
        jax.jit(lambda x: x + 1, compiler_options=dict(options)).lower(0).compile()
    except Exception as error:  # XLA's own class of error, which jax does not export under a stable name
        unknown = next((name for name in options if name in str(error)), None)
        if unknown is None:
            raise
        return unknown
    return None
