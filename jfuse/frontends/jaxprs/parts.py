"""Helpers for reading jaxprs: needed equations, bodies, values as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jax_core

from jfuse.ir.dims import symbol
from jfuse.ir.graph import Graph
from jfuse.ir.types import TensorType

Values = Sequence[Any]


class JaxprReader(Protocol):
    """Methods of the jaxpr walker that control flow needs."""

    def results(self, closed: Any, arguments: Values) -> list[Any]:
        """The results of a closed jaxpr for the values of its arguments."""

    def traced(self, closed: Any, inputs: Sequence[TensorType | Any], known: Mapping[int, Any] | None = None) -> Graph:
        """A closed jaxpr as a graph of its own."""

    def within(self, name: str) -> JaxprReader:
        """The walk in the body of a composite."""


Structured = Callable[[JaxprReader, Any, list[Any]], Values]


def as_array(value: Any) -> Any:
    """A constant as a NumPy array; keys of random numbers, which have no NumPy type, as they are."""
    return np.asarray(value) if isinstance(getattr(value, "dtype", None), np.dtype) else value


def is_key(value: Any) -> bool:
    """Whether this is a key of random numbers, or the type of one."""
    return bool(jnp.issubdtype(getattr(value, "dtype", np.float32), jax.dtypes.prng_key))


def words(value: Any) -> Any:
    """A value; of a constant key of random numbers its words, u32[..., 2], as keys that are computed have them."""
    return np.asarray(jax.random.key_data(value)) if isinstance(value, jax.Array) and is_key(value) else value


def closed_jaxpr(jaxpr: Any) -> Any:
    """The jaxpr with its constants, if it has none yet without any."""
    return jaxpr if isinstance(jaxpr, jax_core.ClosedJaxpr) else jax_core.ClosedJaxpr(jaxpr, ())


_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""The names of an equation's only body: a composite's is jaxpr before jax 0.11.2, call_jaxpr from then on."""


def body_of(eqn: Any) -> Any:
    """The closed jaxpr of a call or a composite."""
    return next(closed_jaxpr(eqn.params[name]) for name in _BODIES if name in eqn.params)


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many operands of a scan are constants, and how many are carried: the trees of `ft_in` from jax 0.11 on."""
    if "ft_in" in params:
        consts, carries, _ = map(len, params["ft_in"].unpack())
        return consts, carries
    return params["num_consts"], params["num_carry"]


def needed(jaxpr: Any) -> list[Any]:
    """The equations that the results need, in order."""
    needed_vars = {v for v in jaxpr.outvars if not isinstance(v, jax_core.Literal)}
    eqns = []
    for eqn in reversed(jaxpr.eqns):
        if any(v in needed_vars for v in eqn.outvars):
            eqns.append(eqn)
            needed_vars.update(v for v in eqn.invars if not isinstance(v, jax_core.Literal))
    return eqns[::-1]


def with_own_sizes(eqn: Any) -> Any:
    """The equation with this program's symbols in the place of the user's, which may have constraints of their own.

    Its bodies stay as they are.
    """
    invars, outvars = ([_var_with_own_sizes(v) for v in variables] for variables in (eqn.invars, eqn.outvars))
    return eqn.replace(params={k: _own_sizes(v) for k, v in eqn.params.items()}, invars=invars, outvars=outvars)


def _var_with_own_sizes(var: Any) -> Any:
    shape = tuple(getattr(var.aval, "shape", ()))
    is_open = any(map(jax.export.is_symbolic_dim, shape))
    return type(var)(var.aval.update(shape=_own_sizes(shape))) if is_open else var


def _own_sizes(value: Any) -> Any:
    if isinstance(value, tuple | list):
        parts = [_own_sizes(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return symbol(str(value)) if jax.export.is_symbolic_dim(value) else value


def bodies(eqn: Any) -> list[Any]:
    """The jaxprs among the parameters of an equation."""
    parts = [v for value in eqn.params.values() for v in (value if isinstance(value, tuple) else (value,))]
    return [getattr(v, "jaxpr", v) for v in parts if isinstance(v, jax_core.ClosedJaxpr | jax_core.Jaxpr)]
