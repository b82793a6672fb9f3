"""What TensorFlow computes for every node of a signature's function, turn by turn in loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from jfuse.frontends.tf_function import TfSignature
from jfuse.verification.named_values import Nodes

_LOOPS = ("While", "StatelessWhile")
_TURNS = 1000


def tensorflow_values(signature: TfSignature, inputs: Mapping[str, np.ndarray]) -> Nodes:
    """The outputs of every node, by the name that it has within its function.

    TensorFlow inlines all calls for this, which prefixes names with those of the calls; names that are not unique
    without the prefix are left out, and nodes with outputs that are no arrays (lists, variables).
    """
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(signature.function, lower_control_flow=False)
    placeholders = frozen.inputs[: len(signature.input_names)]
    feeds = [tf.constant(inputs[n], p.dtype) for n, p in zip(signature.input_names, placeholders, strict=True)]
    return _Run(frozen.graph, frozen.prune, placeholders).nodes(feeds)[0]


@dataclass(frozen=True, eq=False)
class _Run:
    """A graph, how to get a function of it for other results, and its inputs."""

    graph: Any
    prune: Callable[[Sequence[Any], Sequence[Any]], Any]
    inputs: Sequence[Any]

    def nodes(self, feeds: Sequence[Any]) -> tuple[Nodes, Mapping[int, Any]]:
        """The values of all nodes, those of loops when they are asked for; and all tensors, lists too, by their id."""
        tensors, fetch = self._fetch
        values = {id(t): v for t, v in zip(tensors, fetch(*feeds), strict=True)}
        operations = self.graph.get_operations()
        results = {op.name: tuple(np.asarray(values[id(t)]) for t in op.outputs if _is_plain(t)) for op in operations}
        found = Nodes()
        for name, of in _unique({name: of for name, of in results.items() if of}):
            found.add(name, "", of)
        loops = {op.name: partial(self._turns, values, op) for op in operations if op.type in _LOOPS}
        found.turns = {name: cache(turns) for name, turns in _unique(loops)}
        return found, values

    @cached_property
    def _fetch(self) -> tuple[Sequence[Any], Any]:
        tensors = [t for op in self.graph.get_operations() for t in op.outputs if t.dtype.name != "resource"]
        return tensors, self.prune(list(self.inputs), tensors)

    def _turns(self, values: Mapping[int, Any], loop: Any) -> list[Mapping[int, Nodes]]:
        condition, body = (self._function(loop.get_attr(name).name) for name in ("cond", "body"))
        carried = [values[id(t)] for t in loop.inputs]
        found: list[Mapping[int, Nodes]] = []
        while len(found) < _TURNS:
            nodes, given = condition.nodes(carried)
            found.append(turn := {0: nodes})
            if not bool(given[id(condition.graph.outputs[0])]):
                break
            turn[1], given = body.nodes(carried)
            carried = [given[id(t)] for t in body.graph.outputs]
        return found

    @cache  # noqa: B019 (lives as long as one search)
    def _function(self, name: str) -> _Run:
        from tensorflow.python.eager import wrap_function
        from tensorflow.python.framework import function_def_to_graph

        library = {f.signature.name: f for f in self.graph.as_graph_def().library.function}
        with self.graph.as_default():
            graph = function_def_to_graph.function_def_to_graph(library[name])
        wrapped = wrap_function.WrappedFunction(graph, wrap_function.VariableHolder())
        return _Run(graph, wrapped.prune, graph.inputs)


def _is_plain(tensor: Any) -> bool:
    return tensor.dtype.name not in ("resource", "variant")


def _unique(named: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Everything by every end of its path that no other has."""
    found: dict[str, Any] = {}
    repeated: set[str] = set()
    for path, value in named.items():
        parts = path.split("/")
        for name in ("/".join(parts[i:]) for i in range(len(parts))):
            if name in found:
                repeated.add(name)
            found[name] = value
    yield from ((name, value) for name, value in found.items() if name not in repeated)
