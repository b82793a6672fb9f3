"""GraphDefs, as objects and as files: the frozen graphs of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.frontends.graph_def_parts import function_between
from jfuse.frontends.selection import Inputs
from jfuse.frontends.tensorflow.callable import DEFAULT_KEY, reason_of
from jfuse.frontends.tensorflow.live_function import LiveFunction
from jfuse.frontends.tensorflow.signature import TfSignature, unique_names
from jfuse.tf_nodes.attributes import data_inputs, split_reference

SUFFIX = ".pb"
_MOST_LISTED = 8  # names in a message
_NO_RESULTS = frozenset(
    {"Assert", "Const", "NoOp", "Placeholder", "PlaceholderWithDefault"}
)  # freezing a loop leaves some


def is_graph_def(source: object) -> bool:
    """Whether the object is a GraphDef (seen without importing TensorFlow)."""
    return type(source).__name__ == "GraphDef" and hasattr(source, "node")


def read_graph_def(path: Path) -> Any:
    """The GraphDef in a `.pb` file."""
    from tensorflow.core.framework import graph_pb2

    graph_def = graph_pb2.GraphDef()
    try:
        graph_def.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf's parser raises errors of its own
        graph_def.Clear()
        reason = reason_of(error)
    else:
        reason = "no nodes"
    if not graph_def.node:
        raise ImportFailed(
            f"{path} cannot be read as a GraphDef",
            found=reason,
            remedy="for a SavedModel give its folder, not the saved_model.pb in it",
        )
    return graph_def


def graph_def_signature(graph_def: Any, selection: Inputs) -> TfSignature:
    """The part of a GraphDef between named tensors, `name` or `name:0`, as one signature.

    selection: its `input_signature` gives the shapes of the inputs, which old graphs often leave open. Its
    `input_tensors` are by default the placeholders that the outputs need.
    """
    inputs, outputs, specs = selection.input_tensors, selection.output_tensors, selection.input_signature
    outputs = outputs or _results(graph_def)
    fed = list(inputs) if inputs is not None else _placeholders(graph_def, outputs)
    graph_def = graph_def if specs is None else _with_shapes(graph_def, fed, specs)
    _expect_names(graph_def, [*fed, *outputs])
    try:
        function = function_between(graph_def, [_tensor_name(n) for n in fed], [_tensor_name(n) for n in outputs])
    except Exception as error:  # TensorFlow raises whatever its importers raise
        raise ImportFailed(
            "TensorFlow cannot run the graph between its inputs and outputs",
            found=reason_of(error),
            remedy="inputs=jfuse.Inputs(input_tensors=[…]), with all placeholders that the outputs need",
        ) from error
    return TfSignature(DEFAULT_KEY, LiveFunction(function), _short_names(fed), _short_names(outputs))


def _placeholders(graph_def: Any, outputs: Sequence[str]) -> list[str]:
    """The placeholders that the outputs need, in the graph's order."""
    nodes = {node.name: node for node in graph_def.node}
    pending = [split_reference(o)[0] for o in outputs]
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name in nodes and name not in seen:
            seen.add(name)
            pending += [split_reference(i)[0] for i in data_inputs(nodes[name])]
    return [node.name for node in graph_def.node if node.op == "Placeholder" and node.name in seen]


def _results(graph_def: Any) -> list[str]:
    """The one node that nothing reads, or Identity, Identity_1, …, as TensorFlow calls the results of a function.

    Raises ImportFailed where the graph has no such nodes, or others beside them.
    """
    unread = _unread(graph_def)
    if len(unread) == 1 or (
        unread and set(unread) == {f"Identity_{i}" if i else "Identity" for i in range(len(unread))}
    ):
        return sorted(unread, key=lambda name: (len(name), name))
    raise ImportFailed(
        "a GraphDef does not say what it computes",
        expected="output_tensors=[…], names of its tensors",
        found=f"nodes that nothing reads: {_listed(unread)}",
        remedy=f"inputs=jfuse.Inputs(output_tensors={unread[:1]}), if that is the result" if unread else None,
    )


def _unread(graph_def: Any) -> list[str]:
    """The nodes whose results nothing reads; without inputs and those that have no result."""
    read = {split_reference(i)[0].removeprefix("^") for node in graph_def.node for i in node.input}
    return [node.name for node in graph_def.node if node.name not in read and node.op not in _NO_RESULTS]


def _expect_names(graph_def: Any, names: Sequence[str]) -> None:
    names_in_graph = {node.name for node in graph_def.node}
    missing = [name for name in names if split_reference(name)[0] not in names_in_graph]
    if missing:
        placeholders = [node.name for node in graph_def.node if node.op == "Placeholder"]
        raise ImportFailed(
            f"the graph has no tensor {missing[0]!r}",
            expected=f"placeholders: {_listed(placeholders)}; nodes that nothing reads: {_listed(_unread(graph_def))}",
        )


def _with_shapes(graph_def: Any, inputs: Sequence[str], specs: Sequence[Any]) -> Any:
    if len(specs) != len(inputs):
        raise ImportFailed(f"the graph has {len(inputs)} inputs", found=f"an input_signature of {len(specs)}")
    changed = type(graph_def)()
    changed.CopyFrom(graph_def)
    nodes = {node.name: node for node in changed.node}
    for name, spec in zip(inputs, specs, strict=True):
        node = nodes.get(split_reference(name)[0])
        if node is not None and node.op.startswith("Placeholder"):
            node.attr["shape"].shape.CopyFrom(spec.shape.as_proto())
    return changed


def _tensor_name(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _short_names(names: Sequence[str]) -> tuple[str, ...]:
    return unique_names([name.removesuffix(":0") for name in names])


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_LISTED]) + (" …" if len(names) > _MOST_LISTED else "")
