"""Turn a result of `jax.export` into a function that jax can trace: reads its StableHLO op by op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from jfuse.base.errors import ImportFailed
from jfuse.frontends.stablehlo.module import Module


def is_exported(source: Any) -> bool:
    """Whether this is a result of `jax.export.export` or `jax.export.deserialize`."""
    return isinstance(source, jax.export.Exported)


def read_exported(exported: Any, flat: Sequence[Any]) -> list[Any]:
    """The flat results for the flat arguments. Raises ImportFailed for an operator that cannot be read."""
    effects = [*exported.ordered_effects, *exported.unordered_effects]
    if effects:
        raise ImportFailed("the exported function has effects", found=", ".join(map(str, effects)))
    module = Module(exported.mlir_module_serialized, exported.platforms)
    return module(*(flat[i] for i in exported.module_kept_var_idx))
