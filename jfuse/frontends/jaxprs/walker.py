"""From a jaxpr to equations of TFLite ops: each primitive by its rule, calls by their bodies, loops as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.extend import core as jax_core

from jfuse.base.errors import ImportFailed, JfuseError, LowerError
from jfuse.frontends.jaxprs import eigen_spellings, matrix_spellings, scatter_spellings, window_spellings  # noqa: F401  # register
from jfuse.frontends.jaxprs.control import STRUCTURED
from jfuse.frontends.jaxprs.node_names import CALLS, NodeNames, called
from jfuse.frontends.jaxprs.parts import Values, as_array, bodies, needed, with_own_sizes, words
from jfuse.frontends.jaxprs.spellings import spelled
from jfuse.frontends.nan_weights import NanWeights
from jfuse.ir.graph import Graph, Source, Var
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.rule_tools.place import sizes_read_from
from jfuse.lowering.rule_tools.query import type_of
from jfuse.lowering.rules import JaxRule

_WITHOUT_RESULT = frozenset({"debug_callback", "debug_print"})
_FOR_COMPILERS = frozenset(
    {
        "sharding",
        "out_sharding",
        "devices",
        "srcs",
        "copy_semantics",
        "input_dtype",
        "precision",
        "accuracy",
        "weak_type",
        "indices_are_sorted",
        "unique_indices",
        "is_stable",
        "preferred_element_type",
        "update_jaxpr",
        "update_consts",
        "name",
    }
)
"""Parameters that change nothing, or only how it is computed."""
_FOLDED = frozenset({DType.f32, DType.i32, DType.bool, DType.i8, DType.i16})
"""Types of constants that rules compute on as jax does."""


@dataclass(frozen=True)
class JaxWalker:
    """State of one import: the rules, the enclosing composites, weights with NaN.

    has_sizes_of_users: the jaxpr was traced for symbols of a scope of the user's.
    """

    rules: Mapping[str, JaxRule]
    stack: tuple[str, ...] = ()
    names: NodeNames = field(default_factory=NodeNames, compare=False)
    nans: NanWeights = field(default_factory=NanWeights, compare=False)
    has_sizes_of_users: bool = False

    def results(self, closed: Any, arguments: Values) -> list[Any]:
        """The results of a closed jaxpr for the values of its arguments: arrays, or Vars of the active trace."""
        jaxpr = closed.jaxpr
        consts = [as_array(const) for const in closed.consts]
        for const in (c for c in consts if isinstance(c, np.ndarray)):
            self.nans.look_at_constant(f"a constant {type_of(const)} of the function", const)
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        values |= dict(zip(jaxpr.invars, arguments, strict=True))
        for eqn in needed(jaxpr):
            operands = [_read(values, atom) for atom in eqn.invars]
            name = self.names.of(eqn)
            with at_source(Source(name, eqn.primitive.name, self.stack)):
                read = with_own_sizes(eqn) if self.has_sizes_of_users else eqn
                computed = self._equation(read, operands, name)
            values |= {var: value for var, value in zip(eqn.outvars, computed, strict=True)}
        return [_read(values, atom) for atom in jaxpr.outvars]

    def _equation(self, eqn: Any, operands: list[Any], node: str) -> Values:
        name = eqn.primitive.name
        if name in _WITHOUT_RESULT:
            return [None] * len(eqn.outvars)
        if name in CALLS:
            return self.results(*called(eqn, operands))
        if name in STRUCTURED:
            return STRUCTURED[name](self._below(node), eqn, operands)
        if not any(isinstance(o, Var) for o in operands) and not _has_open_size(eqn):
            return self._constant(eqn, operands)
        if (other := spelled(eqn, self.rules)) is not None:
            return self._below(node).results(other, [words(o) for o in operands])
        return self._by_rule(eqn, operands)

    def _below(self, node: str) -> JaxWalker:
        """The walk through a part of an equation."""
        return replace(self, names=NodeNames(f"{node}/"))

    def within(self, name: str) -> JaxWalker:
        """The walk in the body of a composite."""
        return replace(self, stack=(*self.stack, name))

    def _constant(self, eqn: Any, operands: list[Any]) -> Values:
        """The results for constants: by the rule, which computes on arrays, else by jax itself."""
        kinds = [getattr(v.aval, "dtype", None) for v in (*eqn.invars, *eqn.outvars)]
        if eqn.primitive.name in self.rules and all(_dtype(k) in _FOLDED for k in kinds):
            try:
                arrays = self._by_rule(eqn, operands)
            except JfuseError:
                pass
            else:
                return [np.asarray(f) for f in arrays]
        with jax.ensure_compile_time_eval():
            arrays = eqn.primitive.bind(*operands, **eqn.params)
        arrays = arrays if eqn.primitive.multiple_results else [arrays]
        return list(map(as_array, arrays))

    def _by_rule(self, eqn: Any, operands: list[Any]) -> Values:
        rule = self.rules.get(eqn.primitive.name)
        if rule is None:
            raise LowerError(
                f"jax's {eqn.primitive.name} has no TFLite spelling",
                found=f"{eqn.primitive.name} of {', '.join(str(v.aval) for v in eqn.invars)}",
                remedy=f'a rule of your own, @jfuse.lowers_jax("{eqn.primitive.name}")',
            )
        unread = [k for k, v in eqn.params.items() if k not in rule.attributes and not _is_harmless(k, v)]
        if unread:
            raise LowerError(
                f"jax's {eqn.primitive.name} with {unread[0]}={eqn.params[unread[0]]!r} has no TFLite spelling"
            )
        attributes = {k: v for k, v in eqn.params.items() if k in rule.attributes}
        results = rule(*operands, **attributes)
        results = results if isinstance(results, tuple | list) else [results]
        for value, var in zip(results, eqn.outvars, strict=True):
            _check(value, var, eqn)
        return list(results)

    def traced(self, closed: Any, inputs: Sequence[TensorType | Any], known: Mapping[int, Any] | None = None) -> Graph:
        """A closed jaxpr as a graph of its own.

        inputs: the types of the arguments that are computed. known: the values of the others, by position.
        """
        known = known or {}
        total = len(closed.jaxpr.invars)

        def body(*variables: Var) -> tuple[Any, ...]:
            rest = iter(variables)
            arguments = [known[i] if i in known else next(rest) for i in range(total)]
            with sizes_read_from(variables):
                return tuple(map(words, self.results(closed, arguments)))

        return trace_graph(body, [i if isinstance(i, TensorType) else type_of(i) for i in inputs], name="body")


def without_rule(closed: Any, rules: Mapping[str, JaxRule]) -> set[str]:
    """The primitives that the results may need and that nothing spells, in bodies too."""
    names: set[str] = set()
    pending = [closed.jaxpr]
    while pending:
        for eqn in needed(pending.pop()):
            name = eqn.primitive.name
            has_rule = name in rules or name in CALLS or name in STRUCTURED or name in _WITHOUT_RESULT
            if not has_rule and (other := spelled(eqn, rules)) is not None:
                pending.append(other.jaxpr)
            elif not has_rule:
                names.add(name)
            pending += bodies(eqn)
    return names


def _read(values: Mapping[Any, Any], atom: Any) -> Any:
    if not isinstance(atom, jax_core.Literal):
        return values[atom]
    return np.asarray(atom.val, atom.aval.dtype)  # type: ignore[attr-defined]


def _dtype(kind: Any) -> DType | None:
    try:
        return DType.of(np.dtype(kind))
    except (TypeError, ValueError, KeyError):
        return None


def _has_open_size(eqn: Any) -> bool:
    shapes = [v.aval.shape for v in eqn.outvars if hasattr(v.aval, "shape")]
    return "dim" in eqn.params or any(jax.export.is_symbolic_dim(d) for shape in shapes for d in shape)


def _is_harmless(name: str, value: Any) -> bool:
    return name in _FOR_COMPILERS or value is None or value is False or value == ()


def _check(value: Any, var: Any, eqn: Any) -> None:
    """Raise ImportFailed where a rule's result is of another type than jax's."""
    computed, kind = type_of(value), DType.of(var.aval.dtype)
    if computed.dtype is not kind or computed.rank != len(var.aval.shape):
        raise ImportFailed(
            f"{eqn.primitive.name} was given a type that jax contradicts",
            expected=f"{kind.value} of shape {var.aval.shape}",
            found=str(computed),
            remedy="report this model: the rule for this primitive is wrong",
        )
