"""How a rule is called on a composite, with the operands that its parameters name, and how its results are checked."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.base.errors import NotFused, RuleError, raised_in
from jfuse.ir.dims import SymbolNames, symbols_of
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import at_source, recording
from jfuse.ir.walk import all_eqns, rename_dims
from jfuse.lowering.rule_tools.query import type_of
from jfuse.lowering.rule_tools.rule_context import Site, at_site
from jfuse.lowering.rules import FuseRule, need
from jfuse.passes.fuse.padding_promises import Masks
from jfuse.passes.fuse.result_sizes import is_alike, renamed_sizes
from jfuse.proof.ranges import integer_limits


def recorded(eqn: Eqn, rule: FuseRule, is_read: Sequence[bool], masks: Masks) -> tuple[Graph, list[int]]:
    """The graph that the rule records on operands of the composite's types, and which results it gives."""
    inputs = tuple(Var(a.type, a.name, getattr(a, "value", None)) for a in atoms(eqn))
    operands = [a if isinstance(a, Const) else v for a, v in zip(atoms(eqn), inputs, strict=True)]
    bound = _bind(rule, eqn, operands)
    with recording(names=_unused_names(eqn.bodies[0], inputs)) as trace:
        with at_source(eqn.source), at_site(_site(eqn, is_read, inputs, masks)):
            results = _call(rule, eqn, bound)
        returned = [i for i, r in enumerate(results) if r is not None]
        _check_results(eqn, results, is_read)
        assumed = ", ".join(f"{name} = {size}" for name, size in trace.sizes.items())
        need(not assumed, "sizes_agree", want="no assumption on run-time sizes", got=assumed)
        graph = trace.finish(rule.name, inputs, [results[i] for i in returned])
    return rename_dims(graph, renamed_sizes(eqn, graph, returned)), returned


def _site(eqn: Eqn, is_read: Sequence[bool], inputs: Sequence[Var], masks: Masks) -> Site:
    (body,) = eqn.bodies
    places = {v: i for i, v in enumerate(inputs)}
    limits = integer_limits(body)
    by_operand = {ours: limits[theirs] for ours, theirs in zip(inputs, body.inputs, strict=True) if theirs in limits}
    names = eqn.params["arguments"]
    return Site(body, names, tuple(is_read), by_operand, lambda v, *of: masks.side_of(places[v], *of))


@dataclass(frozen=True)
class _Call:
    operands: list[Any]
    attributes: dict[str, Any]


def _bind(rule: FuseRule, eqn: Eqn, operands: Sequence[Any]) -> _Call:
    """Match operands with the rule's parameters: by name, or by position where the names differ."""
    names: Sequence[str] = eqn.params["arguments"]
    by_name = dict(zip(names, operands, strict=True))
    attributes = {n: _attribute(n, p, by_name, dict(eqn.params["attributes"])) for n, p in rule.attributes.items()}
    free = {n: o for n, o in by_name.items() if n not in rule.attributes}
    parameters = [p for p in rule.operands if p.kind is not p.VAR_POSITIONAL]
    required = [p.name for p in parameters if p.default is p.empty]
    if len(parameters) == len(rule.operands) and all(name in free for name in required):
        return _Call([free.get(p.name, p.default) for p in parameters], attributes)
    takes_more = len(parameters) < len(rule.operands)
    fits = len(required) <= len(free) and (takes_more or len(free) <= len(parameters))
    need(fits, "operand_count", want=", ".join(p.name for p in rule.operands), got=", ".join(free))
    return _Call(list(free.values()), attributes)


def _attribute(
    name: str, parameter: inspect.Parameter, operands: Mapping[str, Any], attributes: Mapping[str, Any]
) -> Any:
    """A keyword of the rule: the value of a constant operand, an attribute of the annotation, or the default."""
    if name in operands:
        value = operands[name]
        need(isinstance(value, Const), f"static_{name}", want="a constant", got=str(type_of(value)))
        return _python_value(value.tolist())
    if name in attributes:
        return attributes[name]
    need(parameter.default is not parameter.empty, f"missing_{name}", want=f"an argument or attribute {name!r}")
    return parameter.default


def _python_value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_python_value(v) for v in value)
    return value.decode() if isinstance(value, bytes) else value


def _call(rule: FuseRule, eqn: Eqn, call: _Call) -> tuple[Any, ...]:
    try:
        results = rule(*call.operands, **call.attributes)
    except NotFused:
        raise
    except Exception as error:  # a rule is the user's code and may raise anything
        raise RuleError(
            f"the rule {rule.name} failed on the composite {eqn.params['name']!r}",
            where=str(eqn.source) or None,
            found=raised_in(inspect.getsourcefile(rule.function), error),
            remedy="fix the rule, or refuse with jfuse.need what it cannot take",
        ) from error
    results = tuple(results) if isinstance(results, tuple | list) else (results,)
    if len(results) != len(eqn.outputs):
        raise RuleError(
            f"the rule {rule.name} gives another number of results than the composite {eqn.params['name']!r}",
            where=str(eqn.source) or None,
            expected=len(eqn.outputs),
            found=len(results),
        )
    return results


def _check_results(eqn: Eqn, results: Sequence[Any], is_read: Sequence[bool]) -> None:
    for number, (out, result, read) in enumerate(zip(eqn.outputs, results, is_read, strict=True)):
        if result is None:
            need(not read, "result_not_given", want=f"result {number} of {eqn.params['name']}", got="None")
            continue
        actual = type_of(result if isinstance(result, Var | Const) else np.asarray(result))
        need(is_alike(actual, out.type, eqn), "result_type", want=f"{out.type} as result {number}", got=str(actual))


def _unused_names(body: Graph, inputs: Sequence[Var]) -> SymbolNames:
    """Names of symbols that occur neither in a composite's operands nor in its body."""
    variables = [*inputs, *(v for e in all_eqns(body) for v in e.outputs)]
    names = SymbolNames()
    names.reserve({name for v in variables for d in v.type.shape for name in symbols_of(d)})
    return names


def atoms(eqn: Eqn) -> tuple[Atom, ...]:
    """The operands of a composite, none of which is optional."""
    return tuple(a for a in eqn.inputs if a is not None)
