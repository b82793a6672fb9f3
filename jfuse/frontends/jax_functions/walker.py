"""From a jaxpr to equations of TFLite ops: each primitive by its rule, calls by their bodies, loops as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.extend import core as jax_core

from jfuse.errors import ImportFailed, JfuseError, LowerError
from jfuse.ir.graph import Graph, Source, Var
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import composite, if_, scan, while_
from jfuse.lowering.rule_tools.place import sizes_read_from
from jfuse.lowering.rule_tools.query import type_of
from jfuse.lowering.rules import JaxRule

Values = Sequence[Any]
_BODIES = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_CALLS = frozenset(
    {
        "jit",
        "pjit",
        "closed_call",
        "core_call",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vjp_call_jaxpr",
        "checkpoint",
        "remat2",
        "custom_lin",
    }
)
_WITHOUT_RESULT = frozenset({"debug_callback", "debug_print"})
_FOR_COMPILERS = frozenset(
    {
        "sharding",
        "out_sharding",
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
    """What one import shares: the rules, and the composites around what is walked."""

    rules: Mapping[str, JaxRule]
    stack: tuple[str, ...] = ()

    def results(self, closed: Any, arguments: Values) -> list[Any]:
        """The results of a closed jaxpr for the values of its arguments: arrays, or Vars of the active trace."""
        jaxpr = closed.jaxpr
        values: dict[Any, Any] = dict(zip(jaxpr.constvars, map(_array, closed.consts), strict=True))
        values |= dict(zip(jaxpr.invars, arguments, strict=True))
        for eqn in _needed(jaxpr):
            operands = [_read(values, atom) for atom in eqn.invars]
            with at_source(self._source(eqn)):
                found = self._equation(eqn, operands)
            values |= {var: value for var, value in zip(eqn.outvars, found, strict=True)}
        return [_read(values, atom) for atom in jaxpr.outvars]

    def _source(self, eqn: Any) -> Source:
        scope = str(eqn.source_info.name_stack)
        name = str(eqn.params.get("name", eqn.primitive.name)) if eqn.primitive.name in _CALLS else eqn.primitive.name
        return Source(f"{scope}/{name}" if scope else name, eqn.primitive.name, self.stack)

    def _equation(self, eqn: Any, operands: list[Any]) -> Values:
        name = eqn.primitive.name
        if name in _WITHOUT_RESULT:
            return [None] * len(eqn.outvars)
        if name in _CALLS:
            return self._call(eqn, operands)
        if name in _STRUCTURED:
            return _STRUCTURED[name](self, eqn, operands)
        if not any(isinstance(o, Var) for o in operands) and not _has_open_size(eqn):
            return self._constant(eqn, operands)
        return self._by_rule(eqn, operands)

    def _call(self, eqn: Any, operands: list[Any]) -> Values:
        closed = next(_closed(eqn.params[name]) for name in _BODIES if name in eqn.params)
        skipped = len(operands) - len(closed.jaxpr.invars)  # custom_lin and old forms pass residuals first
        return self.results(closed, operands[skipped:])

    def _constant(self, eqn: Any, operands: list[Any]) -> Values:
        """The results for constants: by the rule, which computes on arrays, else by jax itself."""
        kinds = [getattr(v.aval, "dtype", None) for v in (*eqn.invars, *eqn.outvars)]
        if eqn.primitive.name in self.rules and all(_dtype(k) in _FOLDED for k in kinds):
            try:
                found = self._by_rule(eqn, operands)
            except JfuseError:
                pass
            else:
                return [np.asarray(f) for f in found]
        with jax.ensure_compile_time_eval():
            found = eqn.primitive.bind(*operands, **eqn.params)
        found = found if eqn.primitive.multiple_results else [found]
        return list(map(_array, found))

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
        given = {k: v for k, v in eqn.params.items() if k in rule.attributes}
        found = rule(*operands, **given)
        found = found if isinstance(found, tuple | list) else [found]
        for value, var in zip(found, eqn.outvars, strict=True):
            _check(value, var, eqn)
        return list(found)

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
                return tuple(self.results(closed, arguments))

        return trace_graph(body, [i if isinstance(i, TensorType) else type_of(i) for i in inputs], name="body")


def _array(value: Any) -> Any:
    """A constant as a NumPy array; keys of random numbers, which have no NumPy type, as they are."""
    return np.asarray(value) if isinstance(getattr(value, "dtype", None), np.dtype) else value


def without_rule(closed: Any, rules: Mapping[str, JaxRule]) -> set[str]:
    """The primitives that the results may need and that no rule takes, in bodies too."""
    found: set[str] = set()
    pending = [closed.jaxpr]
    while pending:
        for eqn in _needed(pending.pop()):
            name = eqn.primitive.name
            if name not in rules and name not in _CALLS and name not in _STRUCTURED and name not in _WITHOUT_RESULT:
                found.add(name)
            parts = [v for value in eqn.params.values() for v in (value if isinstance(value, tuple) else (value,))]
            pending += [getattr(v, "jaxpr", v) for v in parts if isinstance(v, jax_core.ClosedJaxpr | jax_core.Jaxpr)]
    return found


def _closed(jaxpr: Any) -> Any:
    return jaxpr if isinstance(jaxpr, jax_core.ClosedJaxpr) else jax_core.ClosedJaxpr(jaxpr, ())


def _needed(jaxpr: Any) -> list[Any]:
    """The equations that the results need, in order."""
    wanted = {v for v in jaxpr.outvars if not isinstance(v, jax_core.Literal)}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if any(v in wanted for v in eqn.outvars):
            kept.append(eqn)
            wanted.update(v for v in eqn.invars if not isinstance(v, jax_core.Literal))
    return kept[::-1]


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
    found, kind = type_of(value), DType.of(var.aval.dtype)
    if found.dtype is not kind or found.rank != len(var.aval.shape):
        raise ImportFailed(
            f"{eqn.primitive.name} was given a type that jax contradicts",
            expected=f"{kind.value} of shape {var.aval.shape}",
            found=str(found),
            remedy="report this model: the rule for this primitive is wrong",
        )


Structured = Callable[[JaxWalker, Any, list[Any]], Values]


def _scan(walker: JaxWalker, eqn: Any, operands: list[Any]) -> Values:
    """jax's scan is the IR's own; what is constant from step to step is known inside."""
    params = eqn.params
    consts, carries = params["num_consts"], params["num_carry"]
    known = {i: v for i, v in enumerate(operands[:consts]) if not isinstance(v, Var)}
    given = [v for i, v in enumerate(operands) if i not in known]
    if not any(isinstance(v, Var) for v in given):
        return _computed(eqn, operands)
    steps = [
        type_of(v) if i < consts + carries else TensorType(type_of(v).shape[1:], type_of(v).dtype)
        for i, v in enumerate(operands)
        if i not in known
    ]
    graph = walker.traced(_closed(params["jaxpr"]), steps, known)
    count = consts - len(known)
    rows = given[count + carries :]
    length = rows[0].shape[0] if rows else params["length"]  # jax's (N - 2) // 2 + 1 is written N // 2 here
    return scan(given, (graph,), consts=count, carries=carries, length=length, reverse=params["reverse"])


def _computed(eqn: Any, operands: list[Any]) -> Values:
    with jax.ensure_compile_time_eval():
        return [np.asarray(v) for v in eqn.primitive.bind(*operands, **eqn.params)]


def _while(walker: JaxWalker, eqn: Any, operands: list[Any]) -> Values:
    """Constants of the loop that are computed are carried along; the others are known inside."""
    params = eqn.params
    cond, body = _closed(params["cond_jaxpr"]), _closed(params["body_jaxpr"])
    cond_count, body_count = params["cond_nconsts"], params["body_nconsts"]
    if not any(isinstance(v, Var) for v in operands):
        return _computed(eqn, operands)
    start = operands[cond_count + body_count :]
    consts = operands[: cond_count + body_count]
    carried = [i for i, v in enumerate(consts) if isinstance(v, Var)]
    inputs = [*(consts[i] for i in carried), *start]

    def part(closed: Any, first: int, count: int, returns: bool) -> Graph:
        def run(*variables: Var) -> tuple[Any, ...]:
            held = dict(zip(carried, variables, strict=False))
            given = [held.get(i, consts[i]) for i in range(first, first + count)]
            with sizes_read_from(variables):
                found = walker.results(closed, [*given, *variables[len(carried) :]])
            return (*variables[: len(carried)], *found) if returns else tuple(found)

        return trace_graph(run, [type_of(v) for v in inputs], name="body" if returns else "cond")

    bodies = (part(cond, 0, cond_count, False), part(body, cond_count, body_count, True))
    return while_(inputs, bodies)[len(carried) :]


def _cond(walker: JaxWalker, eqn: Any, operands: list[Any]) -> Values:
    """The branch that the index names, by halves where there are more than two."""
    index, *rest = operands
    branches = [_closed(b) for b in eqn.params["branches"]]
    if not isinstance(index, Var):
        number = int(np.clip(int(np.asarray(index)), 0, len(branches) - 1))
        return walker.results(branches[number], rest)
    is_flag = type_of(index).dtype is DType.bool
    return _one_of(walker, index if not is_flag else ops.cast(index, out_data_type=DType.i32), rest, branches, 0)


def _one_of(walker: JaxWalker, index: Any, operands: list[Any], branches: Sequence[Any], first: int) -> Values:
    if len(branches) == 1:
        return walker.results(branches[0], operands)
    middle = len(branches) // 2
    flag = ops.less(index, np.int32(first + middle))
    variable = [i for i, v in enumerate(operands) if isinstance(v, Var)]
    given = [index, *(operands[i] for i in variable)]

    def half(part: Sequence[Any], start: int) -> Graph:
        def run(inner: Var, *variables: Var) -> tuple[Any, ...]:
            values = list(operands)
            for i, v in zip(variable, variables, strict=True):
                values[i] = v
            with sizes_read_from(variables):
                return tuple(_one_of(walker, inner, values, part, start))

        return trace_graph(run, [type_of(v) for v in given], name="branch")

    return if_([flag, *given], (half(branches[:middle], first), half(branches[middle:], first + middle)))


def _composite(walker: JaxWalker, eqn: Any, operands: list[Any]) -> Values:
    """`jax.lax.composite` keeps its boundary: its name is what `@jfuse.fuses` asks for."""
    closed = _closed(eqn.params["jaxpr"])
    if not any(isinstance(o, Var) for o in operands):
        return walker.results(closed, operands)
    inner = replace(walker, stack=(*walker.stack, eqn.params["name"]))
    names = getattr(closed.jaxpr.debug_info, "arg_names", None) or ()
    arguments = tuple(str(n) for n in names) if len(names) == len(operands) else _numbered(len(operands))
    graph = inner.traced(closed, operands)
    attributes = tuple((str(k), _plain(tree.unflatten(leaves))) for k, leaves, tree in eqn.params["attributes"])
    return composite(operands, (graph,), name=eqn.params["name"], arguments=arguments, attributes=attributes)


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"arg_{i}" for i in range(count))


def _plain(value: Any) -> Any:
    """An attribute as a number, a text or a tuple of them."""
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value))
    if hasattr(value, "tolist"):
        listed = value.tolist()
        return tuple(listed) if isinstance(listed, list) else listed
    return value


_STRUCTURED: Mapping[str, Structured] = {"scan": _scan, "while": _while, "cond": _cond, "composite": _composite}
