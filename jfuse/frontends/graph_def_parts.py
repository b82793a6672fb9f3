"""Parts of a GraphDef as functions of TensorFlow: each node is imported once, and nothing is copied node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jfuse.tf_nodes.attributes import called_functions, split_reference


def function_between(graph_def: Any, fed: Sequence[str], outputs: Sequence[str]) -> Any:
    """TensorFlow's concrete function of the nodes between tensors (`name:0`), whose shapes are those in the graph.

    Raises ValueError where the outputs need a placeholder that is not fed, and what TensorFlow's importer raises.
    """
    import tensorflow as tf

    part = _Part.between(graph_def, fed, outputs)
    if part.unfed:
        raise ValueError(f"the outputs need the placeholder {part.unfed[0]!r}")
    names = _unused_names(len(fed), part.names)
    specs = [tf.TensorSpec(t.shape, t.dtype, name) for t, name in zip(_tensors(graph_def, fed), names, strict=True)]
    inner = [output for output in outputs if output not in fed]

    def imported(*arguments: Any) -> list[Any]:
        given = dict(zip(fed, arguments, strict=True))
        replaced = {f"^{split_reference(name)[0]}": given[name] for name in fed} | given
        imported_tensors = tf.graph_util.import_graph_def(
            part.message(),
            input_map={name: replaced[name] for name in part.fed},
            return_elements=inner,
            name="",
        )
        made = given | dict(zip(inner, imported_tensors, strict=True))
        return [made[output] for output in outputs]

    return tf.compat.v1.wrap_function(imported, specs)


def _tensors(graph_def: Any, names: Sequence[str]) -> list[Any]:
    """TensorFlow's tensors of these names, in a graph of the nodes that make them."""
    import tensorflow as tf

    part = _Part.between(graph_def, (), names)
    with tf.Graph().as_default():
        return list(tf.graph_util.import_graph_def(part.message(), return_elements=list(names), name=""))


def _unused_names(count: int, taken: frozenset[str]) -> list[str]:
    free = (name for i in range(count + len(taken)) if (name := f"input_{i}") not in taken)
    return [next(free) for _ in range(count)]


@dataclass(frozen=True)
class _Part:
    """The nodes that some tensors of a graph need.

    names: of the nodes. fed: the fed tensors that they read, `name:0`, or `^name` of a node before them.
    unfed: placeholders among the nodes.
    """

    graph_def: Any
    names: frozenset[str]
    fed: frozenset[str]
    unfed: tuple[str, ...]

    @classmethod
    def between(cls, graph_def: Any, fed: Sequence[str], outputs: Sequence[str]) -> _Part:
        """Select the nodes that `outputs` need when the tensors `fed` are inputs."""
        nodes = {node.name: node for node in graph_def.node}
        stops = {*fed, *(f"^{split_reference(name)[0]}" for name in fed)}
        needed: dict[str, None] = {}
        read: set[str] = set()
        pending = [output for output in outputs if output not in stops]
        while pending:
            name = split_reference(pending.pop().removeprefix("^"))[0]
            if name in needed or name not in nodes:  # TensorFlow says what is missing
                continue
            needed[name] = None
            for reference in map(_full_reference, nodes[name].input):
                (read.add if reference in stops else pending.append)(reference)
        unfed = tuple(name for name in needed if nodes[name].op == "Placeholder")
        return cls(graph_def, frozenset(needed), frozenset(read), unfed)

    def message(self) -> Any:
        """The part as a GraphDef, without wishes for places that are those of nodes outside of it."""
        part = type(self.graph_def)(versions=self.graph_def.versions)
        part.node.extend(node for node in self.graph_def.node if node.name in self.names)
        functions = {function.signature.name for function in self.graph_def.library.function}
        if any(node.op in functions or called_functions(node) for node in part.node):
            part.library.CopyFrom(self.graph_def.library)
        for node in part.node:
            node.attr.pop("_class", None)
        return part


def _full_reference(reference: str) -> str:
    return reference if reference.startswith("^") or ":" in reference else f"{reference}:0"
