"""Primitives that others compute: as functions of jax, and as jax itself lowers them to StableHLO.

A function is traced for the operands of an equation; the traced equations replace it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend import core as jax_core

from jfuse.base.errors import JfuseError
from jfuse.frontends.jaxprs.parts import bodies, is_key
from jfuse.frontends.stablehlo.module import Module
from jfuse.lowering.rules import DEFAULT, JaxRule

Spelling = Callable[..., Any]
When = Callable[[Any], bool]


@dataclass(frozen=True)
class _Spelling:
    """A function of the operands by position and the parameters by keyword.   when: for which equations, if not all"""

    function: Spelling
    when: When | None


_SPELLINGS: dict[str, _Spelling] = {}


def spells(*names: str, when: When | None = None) -> Callable[[Spelling], Spelling]:
    """Registers a function that computes primitives of these names.

    when: selects equations that the function takes although there is a rule, which takes the others.
    """

    def register(function: Spelling) -> Spelling:
        for name in names:
            assert name not in _SPELLINGS, f"two functions spell {name}"
            _SPELLINGS[name] = _Spelling(function, when)
        return function

    return register


def spelled(eqn: Any, rules: Mapping[str, JaxRule]) -> Any | None:
    """Spell an equation as a closed jaxpr of its operands; None if a rule lowers it, or nothing does.

    Keys of random numbers are their words, u32[..., 2], among the operands and the results.
    """
    name = eqn.primitive.name
    # Rules read axes of keys, whose words are one axis more: jax's own lowering knows them.
    spelling, rule = _SPELLINGS.get(name), None if _reads_keys(eqn) else rules.get(name)
    if rule is not None and (rule is not DEFAULT.lowers_jax.get(name) or spelling is None):
        return None
    if spelling is not None and (spelling.when is None or spelling.when(eqn)):
        known = [v.val if isinstance(v, jax_core.Literal) else None for v in eqn.invars]
        return _traced(
            lambda *operands: spelling.function(
                *(o if k is None else k for o, k in zip(operands, known, strict=True)), **eqn.params
            ),
            eqn,
        )
    return None if rule is not None else _by_jax(eqn)


def _by_jax(eqn: Any) -> Any | None:
    """Trace jax's own lowering of an equation; None if that is platform-specific."""
    specs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars if hasattr(v.aval, "dtype")]
    if len(specs) != len(eqn.invars):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of 64 bits, which are cut
            made = jax.export.export(jax.jit(lambda *o: eqn.primitive.bind(*o, **eqn.params)), platforms=["cpu"])(
                *specs
            )
            if made.ordered_effects or made.unordered_effects:
                return None
            used, module = made.module_kept_var_idx, Module(made.mlir_module_serialized, made.platforms)
            closed = _traced(lambda *operands: module(*(operands[i] for i in used)), eqn)
    except (JfuseError, Warning, NotImplementedError, ValueError, TypeError):  # no lowering, or a call of LAPACK's
        return None
    says_itself = eqn.primitive.name in _primitives(closed.jaxpr) and not _reads_keys(eqn)
    return None if says_itself else closed


def _reads_keys(eqn: Any) -> bool:
    return any(is_key(v.aval) for v in eqn.invars)


def _traced(function: Callable[..., Any], eqn: Any) -> Any:
    specs = [jax.eval_shape(_words, jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype)) for v in eqn.invars]
    return jax.jit(function, keep_unused=True).trace(*specs).jaxpr


def _words(x: Any) -> Any:
    return jax.random.key_data(x) if is_key(x) else x


def _primitives(jaxpr: Any) -> set[str]:
    names, pending = set(), [jaxpr]
    while pending:
        for eqn in pending.pop().eqns:
            names.add(eqn.primitive.name)
            pending += bodies(eqn)
    return names


@spells("random_wrap", "random_unwrap")
def _same_words(x: Any, **_: Any) -> Any:
    return x


@spells("custom_linear_solve")
def _solved(*operands: Any, const_lengths: Any, jaxprs: Any, **_: Any) -> Any:
    """The solution as the function's author computes it."""
    before = const_lengths.matvec + const_lengths.vecmat
    consts = operands[before : before + const_lengths.solve]
    sides = operands[before + const_lengths.solve + const_lengths.transpose_solve :]
    return jax.extend.core.jaxpr_as_fun(jaxprs.solve)(*consts, *sides)


@spells("clz")
def _leading_zeros(x: Any) -> Any:
    """The bits above the highest one: all below it are set, and counted."""
    bits = 8 * x.dtype.itemsize
    step = 1
    while step < bits:
        x = x | jax.lax.shift_right_logical(x, jax.numpy.asarray(step, x.dtype))
        step *= 2
    return jax.lax.sub(jax.numpy.asarray(bits, x.dtype), jax.lax.population_count(x))
