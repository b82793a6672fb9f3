"""Loops, branches and marked functions of a jaxpr, which are the IR's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jfuse.frontends.jaxprs.parts import JaxprReader, Structured, Values, body_of, closed_jaxpr, scan_counts, words
from jfuse.ir.graph import Graph, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import composite, if_, scan, while_
from jfuse.lowering.rule_tools.place import sizes_read_from
from jfuse.lowering.rule_tools.query import type_of


def _scan(walker: JaxprReader, eqn: Any, operands: list[Any]) -> Values:
    """jax's scan is the IR's own; values that are constant from step to step are known inside."""
    params = eqn.params
    consts, carries = scan_counts(params)
    if not any(isinstance(v, Var) for v in operands):
        return _computed(eqn, operands)
    operands = [*operands[:consts], *map(words, operands[consts:])]
    constants = {i: v for i, v in enumerate(operands[:consts]) if not isinstance(v, Var)}
    operands_left = [v for i, v in enumerate(operands) if i not in constants]
    steps = [
        type_of(v) if i < consts + carries else TensorType(type_of(v).shape[1:], type_of(v).dtype)
        for i, v in enumerate(operands)
        if i not in constants
    ]
    graph = walker.traced(closed_jaxpr(params["jaxpr"]), steps, constants)
    count = consts - len(constants)
    rows = operands_left[count + carries :]
    length = rows[0].shape[0] if rows else params["length"]  # jax's (N - 2) // 2 + 1 is written N // 2 here
    return scan(operands_left, (graph,), consts=count, carries=carries, length=length, reverse=params["reverse"])


def _computed(eqn: Any, operands: list[Any]) -> Values:
    with jax.ensure_compile_time_eval():
        return [np.asarray(v) for v in eqn.primitive.bind(*operands, **eqn.params)]


def _while(walker: JaxprReader, eqn: Any, operands: list[Any]) -> Values:
    """Constants of the loop that are computed are carried along; the others are known inside.

    A condition that vmap gave several answers holds while any of them does; where it does not, values stay.
    """
    params = eqn.params
    cond, body = closed_jaxpr(params["cond_jaxpr"]), closed_jaxpr(params["body_jaxpr"])
    cond_count, body_count = params["cond_nconsts"], params["body_nconsts"]
    if not any(isinstance(v, Var) for v in operands):
        return _computed(eqn, operands)
    # TFLite's WHILE has no captured values: computed constants become carried ones that the body returns unchanged.
    start = [words(v) for v in operands[cond_count + body_count :]]
    consts = operands[: cond_count + body_count]
    carried = [i for i, v in enumerate(consts) if isinstance(v, Var)]
    inputs = [*(consts[i] for i in carried), *start]
    is_mapped = bool(cond.out_avals[0].shape)

    def split(variables: Values, first: int, count: int) -> list[Any]:
        """The constants of a part and the values that it is given."""
        held = dict(zip(carried, variables, strict=False))
        return [*(held.get(i, consts[i]) for i in range(first, first + count)), *variables[len(carried) :]]

    def holds(*variables: Var) -> list[Any]:
        with sizes_read_from(variables):
            return walker.results(cond, split(variables, 0, cond_count))

    def goes_on(*variables: Var) -> tuple[Any, ...]:
        (flag,) = holds(*variables)
        axes = np.arange(len(cond.out_avals[0].shape), dtype=np.int32)
        return (ops.reduce_any(flag, axes) if is_mapped else flag,)

    def step(*variables: Var) -> tuple[Any, ...]:
        with sizes_read_from(variables):
            results = list(map(words, walker.results(body, split(variables, cond_count, body_count))))
            if is_mapped:
                # The loop runs while any sample does, so finished samples must keep their values.
                (flag,) = holds(*variables)
                before = variables[len(carried) :]
                results = [_where(flag, new, old) for new, old in zip(results, before, strict=True)]
        return (*variables[: len(carried)], *results)

    types = [type_of(v) for v in inputs]
    bodies = (trace_graph(goes_on, types, name="cond"), trace_graph(step, types, name="body"))
    return while_(inputs, bodies)[len(carried) :]


def _where(flag: Var, new: Any, old: Any) -> Any:
    """New values where a flag for each of the first axes holds."""
    axes = np.arange(type_of(flag).rank, type_of(new).rank)
    for axis in axes:
        flag = ops.expand_dims(flag, np.int32(axis))
    return ops.select_v2(flag, new, old)


def _cond(walker: JaxprReader, eqn: Any, operands: list[Any]) -> Values:
    """The branch that the index names, by halves where there are more than two."""
    index, *rest = operands
    branches = [closed_jaxpr(b) for b in eqn.params["branches"]]
    if not isinstance(index, Var):
        number = int(np.clip(int(np.asarray(index)), 0, len(branches) - 1))
        return walker.results(branches[number], rest)
    is_flag = type_of(index).dtype is DType.bool
    return _one_of(walker, index if not is_flag else ops.cast(index, out_data_type=DType.i32), rest, branches, 0)


def _one_of(walker: JaxprReader, index: Any, operands: list[Any], branches: Sequence[Any], first: int) -> Values:
    if len(branches) == 1:
        return walker.results(branches[0], operands)
    middle = len(branches) // 2
    flag = ops.less(index, np.int32(first + middle))
    variable = [i for i, v in enumerate(operands) if isinstance(v, Var)]
    branch_operands = [index, *(operands[i] for i in variable)]

    def half(part: Sequence[Any], start: int) -> Graph:
        def run(inner: Var, *variables: Var) -> tuple[Any, ...]:
            values = list(operands)
            for i, v in zip(variable, variables, strict=True):
                values[i] = v
            with sizes_read_from(variables):
                return tuple(_one_of(walker, inner, values, part, start))

        return trace_graph(run, [type_of(v) for v in branch_operands], name="branch")

    return if_([flag, *branch_operands], (half(branches[:middle], first), half(branches[middle:], first + middle)))


def _composite(walker: JaxprReader, eqn: Any, operands: list[Any]) -> Values:
    """`jax.lax.composite` keeps its boundary: its name is what `@jfuse.fuses` asks for."""
    closed = body_of(eqn)
    if not any(isinstance(o, Var) for o in operands):
        return walker.results(closed, operands)
    inner = walker.within(eqn.params["name"])
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


STRUCTURED: Mapping[str, Structured] = {"scan": _scan, "while": _while, "cond": _cond, "composite": _composite}
