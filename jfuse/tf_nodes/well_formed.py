"""Checks the nodes of a graph from a file against the definitions of their ops.

TensorFlow checks them when it loads a graph; a file that jfuse reads itself may contain anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.tf_nodes.attributes import called_functions, data_inputs, operands_before_arguments

_FIELDS = {"string": "s", "int": "i", "float": "f", "bool": "b", "type": "type", "shape": "shape", "tensor": "tensor"}
_MOST_RESULTS = 2**16  # of one node
_CALLS = {
    "PartitionedCall": ("f",),
    "If": ("then_branch", "else_branch"),
    "Case": ("branches",),
    "While": ("cond", "body"),
    "For": ("body",),
}


def check_function(name: str, functions: Mapping[str, Any], op_def: Callable[[str], Any]) -> None:
    """Raise ImportFailed where a function, or one that it calls, is not well formed.

    Its nodes have the operands and attributes of their ops, which stand in the function; calls go to functions of the
    library and never in a circle. op_def: the definition of an op; None where it is not known.
    """
    done: set[str] = set()
    waiting = [(name, False)]
    open_: set[str] = set()
    while waiting:
        here, is_over = waiting.pop()
        if is_over:
            open_.discard(here)
            done.add(here)
        elif here in open_:
            raise ImportFailed("a function of the graph calls itself", where=here)
        elif here not in done:
            function = functions.get(here)
            if function is None:
                raise ImportFailed(f"the graph calls the function {here!r}, which it does not define")
            open_.add(here)
            waiting.append((here, True))
            _check_nodes(here, function, functions, op_def)
            called = {n for node in function.node_def for n in called_functions(node)}
            called |= {node.op for node in function.node_def if node.op in functions}
            waiting += [(n, False) for n in sorted(called) if n not in done]


def _check_nodes(place: str, function: Any, functions: Mapping[str, Any], op_def: Callable[[str], Any]) -> None:
    nodes = {node.name: node for node in function.node_def}
    arguments = {a.name for a in function.signature.input_arg}
    results: dict[str, Mapping[str, int] | None] = {}
    for node in function.node_def:
        where = f"{place}/{node.name}"
        found = op_def(node.op) if node.op not in functions else functions[node.op].signature
        results[node.name] = None if found is None else _outputs(node, found, where)
        if found is not None:
            _check_attributes(node, found, where)
            wanted = sum(_count(node, arg, where) for arg in found.input_arg)
            given = len(data_inputs(node))
            if given != wanted:
                raise _malformed(where, f"{wanted} operands of {node.op}", str(given))
            _check_calls(node, functions, given, sum((results[node.name] or {}).values()), where)
    for node in function.node_def:
        for reference in node.input:
            _check_reference(reference, arguments, nodes, results, f"{place}/{node.name}")
    for output in function.signature.output_arg:
        if output.name not in function.ret:
            raise _malformed(place, f"a value for the result {output.name!r}", "none")
        _check_reference(function.ret[output.name], arguments, nodes, results, place)
    _check_order(place, nodes)


def _check_attributes(node: Any, op_def: Any, where: str) -> None:
    for spec in getattr(op_def, "attr", ()):
        if spec.name not in node.attr:
            if not spec.HasField("default_value"):
                raise _malformed(where, f"the attribute {spec.name!r} of {node.op}", "none")
            continue
        is_list = spec.type.startswith("list(")
        field = "list" if is_list else _FIELDS.get(spec.type, "func")
        kind = node.attr[spec.name].WhichOneof("value")
        if kind not in (field, None if is_list else field):
            raise _malformed(where, f"a {spec.type} as {spec.name!r} of {node.op}", str(kind))


def _check_calls(node: Any, functions: Mapping[str, Any], given: int, results: int, where: str) -> None:
    """Raise ImportFailed where a function that a node calls takes or gives another number of values than the node."""
    kind = node.op.removeprefix("Stateless").removeprefix("Stateful")
    operands = given - operands_before_arguments(node.op)
    for attribute in _CALLS.get(kind, ()):
        value = node.attr[attribute]
        for called in [value.func] if value.WhichOneof("value") == "func" else value.list.func:
            if called.name not in functions:
                continue  # `check_function` tells of it
            signature = functions[called.name].signature
            wanted = operands, 1 if attribute == "cond" else results
            found = len(signature.input_arg), len(signature.output_arg)
            if found != wanted:
                expected = f"{wanted[0]} operands and {wanted[1]} results of {called.name!r}, as {node.op} has them"
                raise _malformed(where, expected, f"{found[0]} and {found[1]}")


def _count(node: Any, arg: Any, where: str) -> int:
    """The number of operands or results of a node for one entry of its op's definition."""
    if arg.number_attr:
        count = int(node.attr[arg.number_attr].i)
    elif arg.type_list_attr:
        count = len(node.attr[arg.type_list_attr].list.type)
    else:
        return 1
    if not 0 <= count <= _MOST_RESULTS:
        raise _malformed(where, f"at most {_MOST_RESULTS} operands or results", str(count))
    return count


def _outputs(node: Any, op_def: Any, where: str) -> Mapping[str, int]:
    return {arg.name: _count(node, arg, where) for arg in op_def.output_arg}


def _check_reference(
    reference: str,
    arguments: Iterable[str],
    nodes: Mapping[str, Any],
    results: Mapping[str, Mapping[str, int] | None],
    where: str,
) -> None:
    """`argument`, `^node`, or `node:result:number`."""
    name, *rest = reference.removeprefix("^").split(":")
    known = results.get(name)
    if reference.startswith("^"):
        right = not rest and (name in nodes or name in arguments)
    elif name in arguments:
        right = not rest or (len(rest) == 1 and _is_below(rest[0], _MOST_RESULTS))
    else:
        count = _MOST_RESULTS if known is None else known.get(rest[0], 0) if rest else 0
        right = name in nodes and len(rest) == 2 and _is_below(rest[1], count)
    if not right:
        raise _malformed(where, "values of the function's own nodes and arguments", repr(reference)[:80])


def _is_below(text: str, end: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 7 and int(text) < end


def _check_order(place: str, nodes: Mapping[str, Any]) -> None:
    """Raise ImportFailed where nodes wait for each other; loops are functions here, or have a NextIteration."""
    state: dict[str, bool] = {}  # whether a node is done
    for root in nodes:
        waiting: list[tuple[str, bool]] = [(root, False)]
        while waiting:
            name, is_over = waiting.pop()
            if is_over:
                state[name] = True
            elif name not in state:
                state[name] = False
                waiting.append((name, True))
                needed: Sequence[str] = [] if "NextIteration" in nodes[name].op else nodes[name].input
                for other in (reference.removeprefix("^").split(":")[0] for reference in needed):
                    if state.get(other) is False:
                        raise _malformed(place, "nodes in an order", f"{name!r} and {other!r}, which wait for another")
                    if other in nodes and other not in state:
                        waiting.append((other, False))


def _malformed(where: str, expected: str, found: str) -> ImportFailed:
    return ImportFailed("a node of the graph is malformed", where=where, expected=expected, found=found)
