"""Scatters by a function of their own, as `x.at[i].apply(f)` makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend import core as jax_core

from jfuse.frontends.jaxprs.parts import closed_jaxpr
from jfuse.frontends.jaxprs.spellings import spells
from jfuse.frontends.stablehlo.scatters import scattered_by


def _has_function(eqn: Any) -> bool:
    return eqn.params["update_jaxpr"] is not None


@spells("scatter", when=_has_function)
def _scatter(
    x: Any,
    indices: Any,
    updates: Any,
    *,
    update_jaxpr: Any,
    update_consts: Sequence[Any],
    dimension_numbers: Any,
    mode: Any,
    unique_indices: bool,
    **_: Any,
) -> Any:
    closed = closed_jaxpr(update_jaxpr)
    function = jax_core.jaxpr_as_fun(jax_core.ClosedJaxpr(closed.jaxpr, update_consts or closed.consts))
    return scattered_by(
        lambda old, new: function(old, new)[0],
        x,
        indices,
        updates,
        dimension_numbers,
        mode=mode,
        is_unique=unique_indices,
    )
