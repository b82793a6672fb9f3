"""Calls, composites, branches and loops: the nodes that name functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from jfuse.base.errors import ImportFailed, LowerError
from jfuse.frontends.tensorflow.arrays import TensorArray
from jfuse.frontends.tensorflow.graph import FunctionCall, PendingList, Walker, handles
from jfuse.frontends.tensorflow.variables import Resource
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph, Var
from jfuse.ir.trace import active_trace, carried_types, recording, trace_graph
from jfuse.ir.walk import rename_dims
from jfuse.kernels import ops
from jfuse.kernels.control import composite, if_, while_
from jfuse.kernels.core.op import draws
from jfuse.lowering.composites.detection import as_runtime_op, is_stub, mistyped_results
from jfuse.lowering.rule_tools.query import type_of
from jfuse.tf_nodes.attributes import decode_attr, split_reference

_UUID = re.compile(r"_[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$")
_MOST_STEPS = 10_000  # of a loop over constants, which is computed at once
_SHAPE_SIZED = 64  # integer operands up to this size keep their value inside a body: they may be shapes


@handles("PartitionedCall", "StatefulPartitionedCall")
def _call(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any] | FunctionCall:
    name = node.attr["f"].func.name
    function = walker.library.functions.get(name)
    if function is None:
        raise ImportFailed(f"the graph calls the function {name!r}, which it does not define")
    marking = composite_marking(function)
    if marking is None or any(isinstance(o, PendingList) for o in operands):
        return FunctionCall(name, operands)
    return _composite(walker, function, operands, *marking)


def composite_marking(function: Any) -> tuple[str, tuple[tuple[str, Any], ...]] | None:
    """Name and attributes of the composite that a FunctionDef is marked as; None for an ordinary function."""
    if "_implements" in function.attr:
        attr = function.attr["_implements"]
        if attr.WhichOneof("value") != "func":
            # "LSTMCellSimple,CoupleInputForgetGates": what follows the name are options.
            first, *options = attr.s.decode().split(",")
            return first, tuple((option, True) for option in options)
        return attr.func.name, tuple((k, decode_attr(attr.func.attr[k])) for k in sorted(attr.func.attr))
    if "api_implements" not in function.attr:
        return None
    # tf_keras appends a fresh uuid to each layer's name; it would make texts and bytes differ from run to run. The
    # official converter looks at no more than the start of it.
    name = _UUID.sub("", function.attr["api_implements"].s.decode())
    name = "lstm" if name.startswith("lstm_") else name
    attributes = tuple((k, function.attr[k].b) for k in ("go_backwards", "time_major") if k in function.attr)
    return f"keras.{name}", attributes


def _composite(
    walker: Walker, function: Any, operands: list[Any], name: str, attributes: tuple[tuple[str, Any], ...]
) -> Sequence[Any] | FunctionCall:
    if any(isinstance(operand, Resource) and operand.is_state for operand in operands):
        return FunctionCall(function.signature.name, operands)  # rules know tensors only
    walker.need_types(operands)
    tensors = [i for i, operand in enumerate(operands) if _is_argument(function, i, operand)]
    arguments = tuple(function.signature.input_arg[i].name for i in tensors)

    def body(*inner: Var) -> Sequence[Any]:
        values = list(operands)
        for i, var in zip(tensors, inner, strict=True):
            if not isinstance(operands[i], Resource):  # whose value is known wherever it is read
                values[i] = var
        nested = replace(walker, stack=(*walker.stack, active_trace().source.node))
        return nested.walk_function(function.signature.name, values)

    arrays = [operands[i].array if isinstance(operands[i], Resource) else operands[i] for i in tensors]
    inputs = [_body_input(value) for value in arrays]
    graph = trace_graph(body, inputs, name="body")
    record = None if name in walker.custom_ops else as_runtime_op(name)
    types = [type_of(o) for o in graph.outputs]
    if record is not None:
        graph = trace_graph(partial(record, attributes=dict(attributes), results=types), inputs, name="body")
    elif name not in walker.custom_ops and not is_stub(graph) and not any(isinstance(g, Var) for g in arrays):
        walker.notes[f"{active_trace().source}: {name!r} is called with constants alone, and computed at once"] = None
        return FunctionCall(function.signature.name, operands)
    params = {"name": name, "arguments": arguments, "attributes": attributes}
    results = composite.record(arrays, params, (graph,))
    if record is not None:
        walker.mistyped.update(mistyped_results(name, types, results))
    return results


def _is_argument(function: Any, place: int, operand: Any) -> bool:
    """Whether an operand of a call is a tensor, or a variable that was passed by name and not captured."""
    if not isinstance(operand, Resource):
        return True
    name = function.signature.input_arg[place].name
    user_name = function.arg_attr[place].attr["_user_specified_name"].s.decode() if place in function.arg_attr else ""
    return operand.array is not None and name == user_name


@handles("If", "StatelessIf")
def _if(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any] | FunctionCall:
    flag, *values = operands
    branches = [node.attr[a].func.name for a in ("then_branch", "else_branch")]
    if not isinstance(flag, Var):
        return FunctionCall(branches[0] if np.asarray(flag).any() else branches[1], values)
    if type_of(flag).rank or type_of(flag).dtype.value != "bool":
        raise LowerError("the condition of an If is not a bool scalar", found=str(type_of(flag)))
    return _branched(walker, flag, values, _Branch.of(branches[0]), _Branch.of(branches[1]))


@handles("Case", "StatelessCase")
def _case(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any] | FunctionCall:
    index, *values = operands
    names = [f.name for f in node.attr["branches"].list.func]
    last = len(names) - 1
    if not isinstance(index, Var):
        number = int(np.asarray(index).reshape(()))
        return FunctionCall(names[number if 0 <= number <= last else last], values)
    if len(names) == 2:
        return _branched(walker, ops.equal(index, np.int32(0)), values, *map(_Branch.of, names))
    # All numbers that are none of a branch mean the last one; those beyond it are found there anyway.
    index = ops.select_v2(ops.less(index, np.int32(0)), np.int32(last), index)
    return _one_of(walker, [index, *values], names=names, first=0)


def _one_of(walker: Walker, values: Sequence[Any], *, names: Sequence[str], first: int) -> Sequence[Any]:
    """The results of the branch that values[0] names, of those that are numbered from `first` on: by halves."""
    if len(names) == 1:
        return walker.walk_function(names[0], values[1:])
    middle = len(names) // 2
    halves = ((names[:middle], first), (names[middle:], first + middle))
    branches = [_Branch(tuple(half), partial(_one_of, names=half, first=start)) for half, start in halves]
    return _branched(walker, ops.less(values[0], np.int32(first + middle)), values, *branches, skip=1)


@dataclass(frozen=True)
class _Branch:
    """A body of an If or While: `run` gives its results, `functions` are those that it may call."""

    functions: tuple[str, ...]
    run: Callable[[Walker, Sequence[Any]], Sequence[Any]]

    @property
    def name(self) -> str:
        """Name of its graph: that of its first function, or "cond"."""
        return _short(self.functions[0]) if self.functions else "cond"

    @classmethod
    def of(cls, name: str) -> _Branch:
        """The one that is a function of the library."""
        return cls((name,), lambda walker, values: walker.walk_function(name, values))


def _branched(
    walker: Walker, flag: Any, values: Sequence[Any], then: _Branch, other: _Branch, *, skip: int = 0
) -> Sequence[Any]:
    """The results of one of two branches. skip: number of leading values that are no arguments of the functions."""
    functions = [*then.functions, *other.functions]
    pending = [i for i, v in enumerate(values) if _is_pending(v)]
    values = _resolved_lists(walker, functions, values, values, pending, skip)
    variable = [i for i, v in enumerate(values) if isinstance(v, Var)]
    states = _States.of(walker, functions, values[skip:])
    inputs = [_body_input(values[i]) for i in variable] + [_body_input(v) for v in states.computed]
    graphs = [_trace_call(walker, branch, values, variable, inputs, states) for branch in (then, other)]
    results = if_([flag, *(values[i] for i in variable), *states.computed], graphs)
    return states.assigned(walker, results)


@handles("While", "StatelessWhile")
def _while(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    cond, body = (node.attr[a].func.name for a in ("cond", "body"))
    _refuse_writes(walker, cond, operands)
    return _looped(walker, operands, _Branch.of(cond), _Branch.of(body), _invariant_arguments(walker, body))


@handles("For")
def _for(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    """A While that counts from the first operand to the second, by the third; its body's function gets the count."""
    start, limit, delta, *values = operands
    name = node.attr["body"].func.name
    if not isinstance(delta, Var) and not np.asarray(delta).any():
        raise LowerError("a For counts in steps of 0", remedy="count in steps of another size")

    def goes_on(_: Walker, operands: Sequence[Any]) -> Sequence[Any]:
        limit, delta, count = operands[:3]
        if isinstance(delta, Var):
            upwards = ops.greater(delta, np.int32(0))
            return [ops.select_v2(upwards, ops.less(count, limit), ops.greater(count, limit))]
        return [ops.less(count, limit) if np.asarray(delta) > 0 else ops.greater(count, limit)]

    def step(walker: Walker, operands: Sequence[Any]) -> Sequence[Any]:
        limit, delta, count, *values = operands
        return [limit, delta, ops.add(count, delta), *walker.walk_function(name, [count, *values])]

    # The body's function has the count before its results.
    invariant = {0, 1, *(i + 2 for i in _invariant_arguments(walker, name, 1))}
    carried = [limit, delta, start, *values]
    return _looped(walker, carried, _Branch((), goes_on), _Branch((name,), step), invariant, skip=2)[3:]


def _looped(
    walker: Walker, operands: Sequence[Any], cond: _Branch, body: _Branch, invariant: set[int], *, skip: int = 0
) -> Sequence[Any]:
    """Trace a while loop and return its results.

    invariant: operands that the body returns unchanged. skip: number of leading ones that its function does not take.
    """
    states = _States.of(walker, body.functions, operands[skip:], always=True)
    # What the loop only passes on and is known now, is known inside.
    carried = [i for i, value in enumerate(operands) if i not in invariant or isinstance(value, Var)]
    if not carried:
        raise LowerError("a loop carries no value that changes, so it never ends")
    pending = [i for i in carried if _is_pending(operands[i])]
    trial = list(operands)
    for i in set(carried).difference(pending):
        trial[i] = _body_input(operands[i], known=i in invariant)
    values = _resolved_lists(walker, body.functions, operands, trial, pending, skip)
    inputs = [_body_input(values[i], known=i in invariant) for i in carried]
    inputs += [_body_input(v, known=r not in states.written) for r, v in states.inputs.items()]
    writing = replace(states, written=tuple(states.inputs))
    opened: set[str] = set()
    while True:
        graphs = [_trace_call(walker, cond, values, carried, inputs, replace(states, written=()))]
        graphs += [_trace_call(walker, body, values, carried, inputs, writing)]
        tail = graphs[1].outputs[len(operands) :]
        graphs[1] = replace(graphs[1], outputs=(*(graphs[1].outputs[i] for i in carried), *tail))
        types = carried_types(graphs[1], opened)
        if types == [v.type for v in graphs[1].inputs]:
            break
        inputs = [Var(t, value=v.value) for t, v in zip(types, inputs, strict=True)]
    graphs = [rename_dims(g, active_trace().sizes) for g in graphs]
    start = [*(values[i] for i in carried), *states.inputs.values()]
    is_known = not any(isinstance(v, Var) for v in start) and not any(draws(e) for g in graphs for e in g.eqns)
    final = _computed(start, *graphs) if is_known else while_(start, graphs)
    final = writing.assigned(walker, final)
    results = list(values)
    for i, result in zip(carried, final, strict=True):
        results[i] = result
    return results


@dataclass(frozen=True)
class _States:
    """The variables of a branch or a loop, with their values at its start, and those that it writes."""

    inputs: Mapping[Resource, Any]
    written: tuple[Resource, ...]

    @classmethod
    def of(cls, walker: Walker, functions: Sequence[str], arguments: Sequence[Any], *, always: bool = False) -> _States:
        """The variables that `functions` write or that hold computed values.   always: written ones are inputs too"""
        variables = walker.variables
        resources = (r for name in functions for r in walker.writes.written_resources(name, arguments))
        written = tuple(dict.fromkeys(r for r in resources if r in variables.live))
        inputs = dict.fromkeys([*variables.computed(arguments), *(written if always else ())])
        return cls({r: variables.current[r] for r in inputs}, written)

    @property
    def computed(self) -> list[Any]:
        """The values of the variables that are inputs, in order."""
        return list(self.inputs.values())

    def assigned(self, walker: Walker, results: Sequence[Any]) -> Sequence[Any]:
        """Assign the last results to the written variables; the other results."""
        first = len(results) - len(self.written)
        walker.variables.current.update(zip(self.written, results[first:], strict=True))
        return results[:first]


def _computed(values: Sequence[Any], cond: Graph, body: Graph) -> Sequence[Any]:
    """The final values of a loop over constants, run at conversion. Raises LowerError where it does not end."""
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
    walker: Walker,
    branch: _Branch,
    values: Sequence[Any],
    variable: Sequence[int],
    inputs: Sequence[Var],
    states: _States,
) -> Graph:
    """The graph of a body whose `variable` arguments are inputs; the other values are known inside.

    The inputs of `states` follow as inputs, and the new values of its written variables as results.
    """

    def run(*inner: Var) -> Sequence[Any]:
        arguments = list(values)
        for i, var in zip(variable, inner, strict=False):
            arguments[i] = var
        held = dict(zip(states.inputs, inner[len(variable) :], strict=True))
        nested = replace(walker, variables=walker.variables.within(held))
        results = [_tensor(r) for r in branch.run(nested, arguments)]
        return [*results, *(nested.variables.current[r] for r in states.written)]

    return trace_graph(run, [Var(v.type, value=v.value) for v in inputs], name=branch.name)


def _tensor(value: Any) -> Any:
    """A result of a body as a tensor; resources and handles that it passes on are none, and nothing reads them."""
    return np.zeros((), np.bool_) if isinstance(value, Resource | TensorArray) else value


def _is_pending(value: Any) -> bool:
    return isinstance(value, PendingList)


def _body_input(value: Any, *, known: bool = True) -> Var:
    """An input for a body; if the value is invariant, integers that may be shapes stay known."""
    if isinstance(value, Var):
        return Var(active_trace().resolve(value.type), value=value.value if known else None)
    array = np.asarray(value)
    is_shape = known and array.dtype.kind in "ib" and array.size <= _SHAPE_SIZED
    return Var(type_of(array), value=array.astype(object) if is_shape else None)


def _invariant_arguments(walker: Walker, body: str, before: int = 0) -> set[int]:
    """The arguments that a loop body returns unchanged, through Identity nodes alone.

    before: number of leading arguments without a result.
    """
    function = walker.library.functions[body]
    nodes = {n.name: n for n in function.node_def}
    invariant = set()
    pairs = zip(function.signature.input_arg[before:], function.signature.output_arg, strict=True)
    for i, (arg, out) in enumerate(pairs, before):
        name = split_reference(function.ret[out.name])[0]
        while name in nodes and nodes[name].op == "Identity":
            name = split_reference(nodes[name].input[0])[0]
        if name == arg.name:
            invariant.add(i)
    return invariant


def _resolved_lists(
    walker: Walker,
    functions: Sequence[str],
    values: Sequence[Any],
    trial: Sequence[Any],
    pending: Sequence[int],
    skip: int = 0,
) -> list[Any]:
    """Lists whose element type only the functions have: walk them on `trial`, then start from zeros of that type."""
    resolved, attempt = list(values), list(trial)
    if not pending:
        return resolved
    for i in pending:
        attempt[i] = replace(values[i])
    with recording(nested=True):
        for name in functions:
            replace(walker, variables=walker.variables.within({})).walk_function(name, attempt[skip:])
    for i in pending:
        values[i].element = attempt[i].element  # whoever walks this on trial is told as well
        resolved[i] = values[i].zeros()
    return resolved


def _refuse_writes(walker: Walker, cond: str, operands: Sequence[Any]) -> None:
    written = walker.variables.live.intersection(walker.writes.written_resources(cond, operands))
    if written:
        raise LowerError(
            f"the variable {next(iter(written)).name!r} is written by the condition of a loop",
            remedy="write it in the body of the loop",
        )


def _short(name: str) -> str:
    return re.sub(r"^__inference_|_\d+(_\d+)*$", "", name)
