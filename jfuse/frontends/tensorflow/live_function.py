"""Concrete functions of TensorFlow that the program holds, as something to import."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from jfuse.base.errors import ImportFailed
from jfuse.frontends.tensorflow.functional import functional_library, functional_nodes
from jfuse.frontends.tensorflow.signature import FunctionGraph, FunctionInput
from jfuse.frontends.tensorflow.variables import Resource, WriteAnalysis, borrow_array
from jfuse.tf_nodes.attributes import decode_dtype, decode_shape
from jfuse.tf_nodes.messages import as_own
from jfuse.tflite.mapped_file import MappedFile


class LiveFunction:
    """A concrete function, with its variables, which it holds weakly; raises ImportFailed where they are gone.

    named: how many inputs and outputs a file says that it has.
    """

    def __init__(self, function: Any, *, named: tuple[int, int] | None = None) -> None:
        self.function = function
        self._named = named
        self._variables = live_variables(function)

    @property
    def variable_names(self) -> Sequence[str]:
        """The names of the variables that the function captures, without `:0`."""
        return [v.name for v in self._variables]

    @property
    def mapped(self) -> Sequence[MappedFile]:
        """None: TensorFlow holds its own copies."""
        return ()

    def graph(self) -> FunctionGraph:
        """The graph to import; raises ImportFailed if an argument or result is no plain tensor, or has no name."""
        function = self.function
        self._refuse_composites()
        graph_def = as_own(function.graph.as_graph_def(add_shapes=True))
        library = functional_library(graph_def)
        nodes, results = functional_nodes(graph_def.node, [t.name for t in function.outputs], library)
        count = len(function.inputs) - len(function.captured_inputs)
        if self._named is not None and self._named != (count, len(results)):  # TensorFlow loads it from damaged files
            expected, actual = (f"{i} inputs and {o} outputs" for i, o in (self._named, (count, len(results))))
            message = "a signature names other inputs or outputs than its function has"
            raise ImportFailed(message, expected=expected, found=actual)
        inputs = [
            FunctionInput(t.op.name, decode_shape(t.shape.as_proto()), decode_dtype(t.dtype.as_datatype_enum))
            for t in function.inputs[:count]
        ]
        placeholders = zip(function.captured_inputs, function.inputs[count:], strict=True)
        captures = {p.op.name: id(t) for t, p in placeholders}
        written = WriteAnalysis(library).written_placeholders(nodes) & captures.keys()
        return FunctionGraph(nodes, results, library, inputs, captures, frozenset(written))

    def captured(self, capture: Hashable, written: bool) -> Any:
        """A Resource for a captured variable or table, the array of a tensor."""
        tensor = next(t for t in self.function.captured_inputs if id(t) == capture)
        variable = self._by_handle.get(id(tensor))
        if variable is not None:
            return Resource(variable.name, borrow_array(variable), written, variable=lambda: variable)
        if tensor.dtype.name in ("resource", "variant"):
            is_graph_tensor = hasattr(tensor, "graph")
            name = str(tensor.name) if is_graph_tensor else "a table"
            return Resource(name, None, written, handle=None if is_graph_tensor else lambda: tensor)
        array = np.asarray(tensor.numpy())
        return array.astype(object) if array.dtype.kind in "SUO" else array

    @cached_property
    def _by_handle(self) -> Mapping[int, Any]:
        return {id(v.handle): v for v in self._variables}

    def _refuse_composites(self) -> None:
        """Raise where an argument or a result is sparse; a ragged one is its values and row splits."""
        import tensorflow as tf

        several, specs = (tf.SparseTensor, tf.IndexedSlices), (tf.SparseTensorSpec, tf.IndexedSlicesSpec)
        function = self.function
        nests = {"an argument": function.structured_input_signature, "a result": function.structured_outputs}
        for what, nest in nests.items():
            composites = [item for item in tf.nest.flatten(nest) if isinstance(item, (*several, *specs))]
            if composites:
                raise ImportFailed(
                    f"{what} of the function is no plain tensor",
                    found=type(composites[0]).__name__,
                    remedy="take and return the tensors that it is made of (values, row_splits, indices, …)",
                )


def live_variables(function: Any) -> tuple[Any, ...]:
    """The variables of a concrete function, which holds them weakly; raises ImportFailed where they are gone."""
    try:
        return tuple(function.variables)
    except AssertionError as error:
        raise ImportFailed(
            "the variables of the function have been deleted",
            expected="the model or module that owns them, for as long as its function is used",
            remedy="keep it in a variable until the conversion is done",
        ) from error
