"""Calls, composites, branches and loops: the nodes that name functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.errors import ImportFailed, LowerError
from jfuse.frontends.tf_graph import PendingList, Walker, handles
from jfuse.frontends.tf_nodes import decode_attr, split_reference
from jfuse.frontends.tf_variables import Resource
from jfuse.ir.dims import same, substitute_dim
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph, Var
from jfuse.ir.trace import active_trace, recording, trace_graph
from jfuse.ir.walk import rename_dims
from jfuse.kernels.control import composite, if_, while_
from jfuse.lowering.query import type_of

_UUID = re.compile(r"_[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$")
_MOST_STEPS = 10_000  # of a loop over constants, which is computed at once
_SHAPE_SIZED = 64  # integer operands up to this size keep their value inside a body: they may be shapes


@handles("PartitionedCall", "StatefulPartitionedCall")
def _call(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    name = node.attr["f"].func.name
    function = walker.library.functions.get(name)
    if function is None:
        raise ImportFailed(f"the graph calls the function {name!r}, which it does not define")
    marking = composite_marking(function)
    if marking is None or any(isinstance(o, PendingList) for o in operands):
        return walker.walk_function(name, operands)
    return _composite(walker, function, operands, *marking)


def composite_marking(function: Any) -> tuple[str, tuple[tuple[str, Any], ...]] | None:
    """Name and attributes of the composite that a FunctionDef is marked as; None for an ordinary function."""
    if "_implements" in function.attr:
        attr = function.attr["_implements"]
        if attr.WhichOneof("value") != "func":
            return attr.s.decode(), ()
        return attr.func.name, tuple((k, decode_attr(attr.func.attr[k])) for k in sorted(attr.func.attr))
    if "api_implements" not in function.attr:
        return None
    # tf_keras appends a fresh uuid to each layer's name; it would make texts and bytes differ from run to run.
    name = _UUID.sub("", function.attr["api_implements"].s.decode())
    attributes = tuple((k, function.attr[k].b) for k in ("go_backwards", "time_major") if k in function.attr)
    return f"keras.{name}", attributes


def _composite(
    walker: Walker, function: Any, operands: list[Any], name: str, attributes: tuple[tuple[str, Any], ...]
) -> Sequence[Any]:
    tensors = [i for i, operand in enumerate(operands) if not isinstance(operand, Resource)]
    arguments = tuple(function.signature.input_arg[i].name for i in tensors)

    def body(*inner: Var) -> Sequence[Any]:
        values = list(operands)
        for i, var in zip(tensors, inner, strict=True):
            values[i] = var
        nested = replace(walker, stack=(*walker.stack, active_trace().source.node))
        return nested.walk_function(function.signature.name, values)

    inputs = [_body_input(operands[i]) for i in tensors]
    graph = trace_graph(body, inputs, name="body")
    given = [operands[i] for i in tensors]
    if not any(isinstance(g, Var) for g in given):
        return walker.walk_function(function.signature.name, operands)
    return composite(given, (graph,), name=name, arguments=arguments, attributes=attributes)


@handles("If", "StatelessIf")
def _if(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    flag, *values = operands
    branches = [node.attr[a].func.name for a in ("then_branch", "else_branch")]
    if not isinstance(flag, Var):
        return walker.walk_function(branches[0] if np.asarray(flag).any() else branches[1], values)
    _refuse_writes(walker, node)
    if type_of(flag).rank or type_of(flag).dtype.value != "bool":
        raise LowerError("the condition of an If is not a bool scalar", found=str(type_of(flag)))
    variable = [i for i, v in enumerate(values) if isinstance(v, Var)]

    inputs = [_body_input(values[i]) for i in variable]
    graphs = [_trace_call(walker, name, values, variable, inputs) for name in branches]
    return if_([flag, *(values[i] for i in variable)], graphs)


@handles("While", "StatelessWhile")
def _while(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    _refuse_writes(walker, node)
    cond, body = (node.attr[a].func.name for a in ("cond", "body"))
    invariant = _invariant_arguments(walker, body)
    # What the loop only passes on and is known now, is known inside.
    carried = [i for i, value in enumerate(operands) if i not in invariant or isinstance(value, Var)]
    if not carried:
        raise LowerError("a loop carries no value that changes, so it never ends")
    values = _resolved_lists(walker, body, operands, carried, invariant)
    inputs = [_body_input(values[i], known=i in invariant) for i in carried]
    graphs = [_trace_call(walker, name, values, carried, inputs) for name in (cond, body)]
    graphs[1] = replace(graphs[1], outputs=tuple(graphs[1].outputs[i] for i in carried))
    _unify_carried(graphs[1])
    graphs = [rename_dims(g, active_trace().sizes) for g in graphs]
    start = [values[i] for i in carried]
    final = while_(start, graphs) if any(isinstance(v, Var) for v in start) else _computed(start, *graphs)
    results = list(values)
    for i, result in zip(carried, final, strict=True):
        results[i] = result
    return results


def _computed(values: Sequence[Any], cond: Graph, body: Graph) -> Sequence[Any]:
    """What a loop over constants ends with."""
    for _ in range(_MOST_STEPS):
        if not np.asarray(evaluate(cond, values)[0]).any():
            return values
        values = evaluate(body, values)
    raise LowerError(
        "a loop over constants does not end",
        expected=f"at most {_MOST_STEPS} steps",
        remedy="compute its result before the function is traced",
    )


def _trace_call(
    walker: Walker, name: str, values: Sequence[Any], variable: Sequence[int], inputs: Sequence[Var]
) -> Graph:
    """The graph of a function whose `variable` arguments are inputs; the other values are known inside."""

    def run(*inner: Var) -> Sequence[Any]:
        arguments = list(values)
        for i, var in zip(variable, inner, strict=True):
            arguments[i] = var
        return [_tensor(r) for r in walker.walk_function(name, arguments)]

    return trace_graph(run, [Var(v.type, value=v.value) for v in inputs], name=_short(name))


def _tensor(value: Any) -> Any:
    """A result of a body as a tensor; resources that it passes on are no tensors and are read by nobody."""
    return np.zeros((), np.bool_) if isinstance(value, Resource) else value


def _body_input(value: Any, *, known: bool = True) -> Var:
    """An input for a body; where the value stays what it is, integers that may be shapes stay known."""
    if isinstance(value, Var):
        return Var(active_trace().resolve(value.type), value=value.value if known else None)
    array = np.asarray(value)
    is_shape = known and array.dtype.kind in "ib" and array.size <= _SHAPE_SIZED
    return Var(type_of(array), value=array.astype(object) if is_shape else None)


def _invariant_arguments(walker: Walker, body: str) -> set[int]:
    """The arguments that a loop body returns unchanged, through Identity nodes alone."""
    function = walker.library.functions[body]
    nodes = {n.name: n for n in function.node_def}
    found = set()
    for i, (arg, out) in enumerate(zip(function.signature.input_arg, function.signature.output_arg, strict=True)):
        name = split_reference(function.ret[out.name])[0]
        while name in nodes and nodes[name].op == "Identity":
            name = split_reference(nodes[name].input[0])[0]
        if name == arg.name:
            found.add(i)
    return found


def _resolved_lists(
    walker: Walker, body: str, values: Sequence[Any], carried: Sequence[int], invariant: set[int]
) -> list[Any]:
    """Lists whose element type only the body tells: walk it once on trial, then start from zeros of that type."""
    resolved = list(values)
    pending = [i for i in carried if isinstance(values[i], PendingList)]
    if not pending:
        return resolved
    trial = list(values)
    for i in carried:
        trial[i] = _body_input(values[i], known=i in invariant) if i not in pending else replace(values[i])
    with recording(nested=True):
        walker.walk_function(body, trial)
    for i in pending:
        resolved[i] = trial[i].zeros()
    return resolved


def _unify_carried(body: Graph) -> None:
    """Each carried value keeps its shape from step to step: sizes that are open are taken for equal, others refused."""
    for var, out in zip(body.inputs, body.outputs, strict=True):
        pairs = list(zip(var.type.shape, out.type.shape, strict=False))
        for before, after in pairs:
            if same(before, after) is None:
                active_trace().equate(before, after)
        fits = var.type.dtype is out.type.dtype and var.type.rank == out.type.rank
        sizes = active_trace().sizes
        if not fits or not all(same(substitute_dim(a, sizes), substitute_dim(b, sizes)) for a, b in pairs):
            raise LowerError(
                "a value carried by a loop changes its type",
                expected=str(var.type),
                found=str(out.type),
                remedy="keep the shape fixed: pad it, or write into a TensorArray",
            )


def _refuse_writes(walker: Walker, node: Any) -> None:
    if walker.writes.writes(node):
        raise LowerError(
            "a variable is written inside of a loop or branch", remedy="carry the value through the loop instead"
        )


def _short(name: str) -> str:
    return re.sub(r"^__inference_|_\d+(_\d+)*$", "", name)
