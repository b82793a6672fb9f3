"""The values that TensorFlow computes for every node of a signature's function, turn by turn in loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from jfuse.frontends.sources import Imported
from jfuse.frontends.tensorflow.functional import functional_library, functional_nodes
from jfuse.frontends.tensorflow.variables import WriteAnalysis
from jfuse.tf_nodes.messages import as_own
from jfuse.verification.runners.in_tensorflow import set_variables, variables_restored
from jfuse.verification.runners.node_values import Nodes
from jfuse.verification.subject import Arrays

_LOOPS = ("While", "StatelessWhile")
_TURNS = 1000


def tensorflow_values(source: Imported, key: str, inputs: Arrays, states: Arrays = MappingProxyType({})) -> Nodes:
    """The outputs of every node in one call of a signature, by the name that it has within its function.

    states: values of variables before the call, by the names of the states; all are restored to what they
    held when it is over.

    TensorFlow inlines all calls for this, which prefixes names with those of the calls; names that are not unique
    without the prefix are left out, and nodes with outputs that are no arrays (lists, variables). Loops that work on
    variables which the function writes are not entered: their turns cannot be repeated.
    """
    import tensorflow as tf

    signature = source.functions[key]
    count = len(signature.input_names)
    frozen, handles = _frozen(signature.function)
    with variables_restored(source):
        set_variables(source, states)
        values = zip(signature.input_names, frozen.inputs, strict=False)
        feeds = [tf.constant(inputs[n], p.dtype) for n, p in values]
        feeds += [handles[p.op.name] for p in frozen.inputs[count:]]
        return _FunctionRun(frozen.graph, frozen.prune, frozen.inputs).nodes(feeds)[0]


def _frozen(function: Any) -> tuple[Any, Mapping[str, Any]]:
    """A function with all calls inlined and its variables as constants, but for those that it writes.

    And the handles of these, which it takes after its inputs, by the names of their placeholders.
    """
    from tensorflow.python.framework import convert_to_constants as frozen

    graph_def = as_own(function.graph.as_graph_def())
    library = functional_library(graph_def)
    nodes, _ = functional_nodes(graph_def.node, [t.name for t in function.outputs], library)
    written = WriteAnalysis(library).written_placeholders(nodes)
    handles = {p.op.name: tensor for tensor, p in function.graph.captures if p.op.name in written}
    # As `convert_variables_to_constants_v2`, which leaves no variable out.
    converted = frozen._FunctionConverterDataInEager(function, False, False, variable_names_denylist=set(handles))
    return frozen._construct_concrete_function(function, *frozen._replace_variables_by_constants(converted)), handles


@dataclass(frozen=True, eq=False)
class _FunctionRun:
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
        nodes = Nodes()
        for name, of in _unique({name: of for name, of in results.items() if of}):
            nodes.add(name, "", of)
        whole = (op for op in operations if op.type in _LOOPS and all(id(t) in values for t in op.inputs))
        nodes.turns = dict(_unique({op.name: cache(partial(self._turns, values, op)) for op in whole}))
        return nodes, values

    @cached_property
    def _fetch(self) -> tuple[Sequence[Any], Any]:
        tensors = [t for op in self.graph.get_operations() for t in op.outputs if t.dtype.name != "resource"]
        return tensors, self.prune(list(self.inputs), tensors)

    def _turns(self, values: Mapping[int, Any], loop: Any) -> list[Mapping[int, Nodes]]:
        condition, body = (self._function(loop.get_attr(name).name) for name in ("cond", "body"))
        carried = [values[id(t)] for t in loop.inputs]
        turns: list[Mapping[int, Nodes]] = []
        while len(turns) < _TURNS:
            nodes, given = condition.nodes(carried)
            turns.append(turn := {0: nodes})
            if not bool(given[id(condition.graph.outputs[0])]):
                break
            turn[1], given = body.nodes(carried)
            carried = [given[id(t)] for t in body.graph.outputs]
        return turns

    @cache  # noqa: B019 (lives as long as one search)
    def _function(self, name: str) -> _FunctionRun:
        from tensorflow.python.eager import wrap_function
        from tensorflow.python.framework import function_def_to_graph

        library = {f.signature.name: f for f in self.graph.as_graph_def().library.function}
        with self.graph.as_default():
            graph = function_def_to_graph.function_def_to_graph(library[name])
        wrapped = wrap_function.WrappedFunction(graph, wrap_function.VariableHolder())
        return _FunctionRun(graph, wrapped.prune, graph.inputs)


def _is_plain(tensor: Any) -> bool:
    return tensor.dtype.name not in ("resource", "variant")


def _unique(named: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Everything by every end of its path that no other has."""
    unique: dict[str, Any] = {}
    repeated: set[str] = set()
    for path, value in named.items():
        parts = path.split("/")
        for name in ("/".join(parts[i:]) for i in range(len(parts))):
            if name in unique:
                repeated.add(name)
            unique[name] = value
    yield from ((name, value) for name, value in unique.items() if name not in repeated)
