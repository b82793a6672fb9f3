"""TensorFlow ops as functions of jax arrays, with the attributes of their definitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax.numpy as jnp
from jax import lax

from jfuse.frontends.jaxprs.in_jax import computed_in_jax
from jfuse.ir.graph import Const, Var
from jfuse.lowering.rule_tools.place import sizes_read_from
from jfuse.lowering.rules import LowerRule

IN_JAX: dict[str, LowerRule] = {}
"""Rules for ops that have none in `lowering/ops`."""


def _computes(name: str) -> Callable[[Callable[..., Any]], None]:
    def register(function: Callable[..., Any]) -> None:
        @wraps(function)
        def lower(*operands: Any, **attributes: Any) -> list[Any]:
            arguments = [o.array if isinstance(o, Const) else o for o in operands]
            with sizes_read_from([o for o in arguments if isinstance(o, Var)]):
                return computed_in_jax(function, arguments, attributes)

        IN_JAX[name] = LowerRule((name,), lower)

    return register


@_computes("Qr")
def _qr(x: Any, *, full_matrices: bool = False) -> Any:
    return jnp.linalg.qr(x, "complete" if full_matrices else "reduced")


@_computes("SelfAdjointEigV2")
def _eigh(x: Any, *, compute_v: bool = True) -> Any:
    vectors, values = lax.linalg.eigh(x, symmetrize_input=False)
    return values, vectors if compute_v else jnp.zeros(0, x.dtype)


@_computes("Svd")
def _svd(x: Any, *, compute_uv: bool = True, full_matrices: bool = False) -> Any:
    if not compute_uv:
        return jnp.linalg.svd(x, compute_uv=False), jnp.zeros(0, x.dtype), jnp.zeros(0, x.dtype)
    left, values, right = jnp.linalg.svd(x, full_matrices)
    return values, left, right.mT


@_computes("Lu")
def _lu(x: Any, *, output_idx_type: Any = None) -> Any:
    factors, _, order = lax.linalg.lu(x)
    return factors, order
