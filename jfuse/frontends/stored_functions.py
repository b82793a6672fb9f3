"""The signatures of a SavedModel of TensorFlow 2, as its files have them: nothing is loaded by TensorFlow.

Source: tensorflow/core/protobuf/saved_object_graph.proto; python/saved_model/load.py
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.base.errors import ImportFailed
from jfuse.frontends.checkpoint.object_keys import variable_keys
from jfuse.frontends.checkpoint.tensor_bundle import NotUnderstood, TensorBundle, open_bundle
from jfuse.frontends.tensorflow.functional import functional_library
from jfuse.frontends.tensorflow.signature import FunctionGraph, FunctionInput, TfSignature, flat_names
from jfuse.frontends.tensorflow.variables import Resource, WriteAnalysis
from jfuse.tf_nodes.attributes import Library, PartialShape, decode_dtype, decode_shape, decode_tensor
from jfuse.tf_nodes.op_defs import op_def
from jfuse.tf_nodes.well_formed import check_function
from jfuse.tflite.mapped_file import MappedFile

_UNNAMED = "Variable"  # what TensorFlow calls a variable whose object has no name


class StoredModel:
    """The objects and functions of a SavedModel.

    graph: its MetaGraphDef. load: gives the object that TensorFlow loads, once.
    Raises NotUnderstood for one of TensorFlow 1, ImportFailed for a damaged one.
    """

    def __init__(self, path: Path, graph: Any, load: Callable[[], Any]) -> None:
        if not graph.HasField("object_graph_def"):
            raise NotUnderstood("it was saved by TensorFlow 1")
        self.path = path
        self.load = load
        self.objects = graph.object_graph_def.nodes
        self.functions = graph.object_graph_def.concrete_functions
        self.library = functional_library(graph.graph_def)
        self._graph = graph
        self._definitions = {f.signature.name: f for f in graph.graph_def.library.function}
        self._check_references()

    def signatures(self) -> dict[str, TfSignature]:
        """The signatures by key.   Raises NotUnderstood if an argument or result is no plain tensor."""
        root = self._children(0)
        functions = self._children(root["signatures"]) if "signatures" in root else {}
        return {key: self._signature(key, number) for key, number in functions.items()}

    def captured(self, number: int, written: bool, source: StoredFunction) -> Any:
        """Decode a captured object: a variable, constant, asset or table; see `FunctionSource.captured`."""
        item = self.objects[number]
        kind = item.WhichOneof("kind")
        if kind == "variable":
            array = self._value(number, item.variable)
            return Resource(self.variable_name(number), array, written, variable=lambda: source.variable(number))
        if kind == "constant":
            if item.constant.operation not in self._constants:
                raise self._damaged(f"no constant {item.constant.operation!r}")
            return decode_tensor(self._constants[item.constant.operation])
        if kind == "asset":
            files = self._graph.asset_file_def
            if not 0 <= item.asset.asset_file_def_index < len(files):
                raise self._damaged("an object that names no asset")
            file = files[item.asset.asset_file_def_index].filename
            return np.array(os.fsencode(self.path / "assets" / file), object)
        return Resource("a table", None, written, handle=lambda: source.tensor(number))

    def variable_name(self, number: int) -> str:
        """TensorFlow's name for a variable that it loads."""
        return f"{self.objects[number].variable.name or _UNNAMED}:0"

    @property
    def mapped(self) -> Sequence[MappedFile]:
        """The files of the checkpoint that are too large to be copied, as far as variables were asked for."""
        return self._bundle.mapped if "_bundle" in vars(self) else ()

    def _children(self, number: int) -> dict[str, int]:
        return {child.local_name: child.node_id for child in self.objects[number].children}

    def _signature(self, key: str, number: int) -> TfSignature:
        item = self.objects[number]
        name = item.bare_concrete_function.concrete_function_name
        if item.WhichOneof("kind") != "bare_concrete_function" or name not in self.functions:
            raise NotUnderstood(f"the signature {key!r} is not one function")
        check_function(name, self._definitions, op_def)
        concrete = self.functions[name]
        for capture in concrete.bound_inputs:
            kind = self.objects[capture].WhichOneof("kind")
            if kind not in ("variable", "constant", "asset", "resource"):
                raise NotUnderstood(f"the signature {key!r} holds an object of kind {kind!r}")
        arguments = _structure(concrete.canonicalized_input_signature)
        positional, keywords = arguments if isinstance(arguments, list) and len(arguments) == 2 else ([], None)
        if positional or not isinstance(keywords, Mapping):
            raise NotUnderstood(f"the signature {key!r} has arguments without names")
        outputs = _structure(concrete.output_signature)
        names = flat_names(keywords, "input"), flat_names(outputs, "output")
        stated = self._definitions[name].signature
        counts = len(stated.input_arg) - len(concrete.bound_inputs), len(stated.output_arg)
        if counts != tuple(map(len, names)):
            raise self._damaged(f"the signature {key!r} has other inputs or outputs than its function")
        return TfSignature(key, StoredFunction(self, key, name), *names)

    def _value(self, number: int, declared: Any) -> np.ndarray:
        try:
            if number not in self._keys:
                raise ImportFailed("the checkpoint has no value for a variable")
            array = self._bundle.read(self._keys[number])
        except ImportFailed as error:
            name = repr(declared.name or number)
            raise ImportFailed(
                f"{self.path} cannot be read as a SavedModel", where=f"the variable {name}", found=error.reason
            ) from error
        shape, dtype = decode_shape(declared.shape), decode_dtype(declared.dtype)
        fits = shape is None or (
            len(shape) == array.ndim and all(a in (None, b) for a, b in zip(shape, array.shape, strict=True))
        )
        if not fits or array.dtype != dtype.numpy:
            raise ImportFailed(
                f"{self.path} cannot be read as a SavedModel",
                where=f"the variable {declared.name or number!r}",
                expected=f"{dtype.value} of shape {shape}",
                found=f"{array.dtype} of shape {array.shape} in the checkpoint",
            )
        return array

    def _check_references(self) -> None:
        count = len(self.objects)
        numbers = [child.node_id for item in self.objects for child in item.children]
        numbers += [i for function in self.functions.values() for i in function.bound_inputs]
        if not count or any(not 0 <= i < count for i in numbers):
            raise self._damaged("objects that refer to none")

    def _damaged(self, found: str) -> ImportFailed:
        return ImportFailed(f"{self.path} cannot be read as a SavedModel", found=found)

    @cached_property
    def _bundle(self) -> TensorBundle:
        return open_bundle(self.path / "variables" / "variables")

    @cached_property
    def _keys(self) -> dict[int, str]:
        return variable_keys(self._bundle, self._graph.object_graph_def)

    @cached_property
    def _constants(self) -> dict[str, Any]:
        return {node.name: node.attr["value"].tensor for node in self._graph.graph_def.node if node.op == "Const"}


class StoredFunction:
    """A function in a SavedModel's file."""

    def __init__(self, model: StoredModel, key: str, name: str) -> None:
        self._model = model
        self._key = key
        self._name = name
        self._bound = list(model.functions[name].bound_inputs)

    @cached_property
    def function(self) -> Any:
        """TensorFlow's concrete function: the folder is loaded by it now."""
        loaded = self._model.load().signatures
        if self._key not in loaded:
            reason = f"no signature {self._key!r} for TensorFlow"
            raise ImportFailed(f"{self._model.path} cannot be read as a SavedModel", found=reason)
        return loaded[self._key]

    @property
    def variable_names(self) -> Sequence[str]:
        """The names of the variables that the function captures, as their objects have them."""
        numbers = [n for n in self._bound if self._model.objects[n].WhichOneof("kind") == "variable"]
        return [self._model.variable_name(n) for n in numbers]

    @property
    def mapped(self) -> Sequence[MappedFile]:
        """The files of the checkpoint that constants are views of."""
        return self._model.mapped

    def graph(self) -> FunctionGraph:
        """The function's nodes, arguments and results, with the variables and constants that it captures."""
        library: Library = self._model.library
        definition = library.functions.get(self._name)
        if definition is None:
            raise ImportFailed(
                f"{self._model.path} cannot be read as a SavedModel", found=f"no function {self._name!r}"
            )
        arguments = definition.signature.input_arg
        count = len(arguments) - len(self._bound)
        if count < 0:
            raise ImportFailed(
                f"{self._model.path} cannot be read as a SavedModel",
                where=self._name,
                found=f"{len(arguments)} arguments, and {len(self._bound)} objects that it holds",
            )
        inputs = [
            FunctionInput(a.name, _argument_shape(definition, i), decode_dtype(a.type))
            for i, a in enumerate(arguments[:count])
        ]
        captures: dict[str, Hashable] = {a.name: n for a, n in zip(arguments[count:], self._bound, strict=True)}
        results = [definition.ret[o.name] for o in definition.signature.output_arg]
        positions = WriteAnalysis(library).written_arguments(self._name)
        written = frozenset(arguments[i].name for i in positions) & captures.keys()
        return FunctionGraph(definition.node_def, results, library, inputs, captures, frozenset(written))

    def captured(self, capture: Hashable, written: bool) -> Any:
        """A Resource for a variable or table, the array of a constant."""
        assert isinstance(capture, int), "the number of an object"
        return self._model.captured(capture, written, self)

    def tensor(self, number: int) -> Any:
        """Load the folder in TensorFlow and return its tensor for a captured object."""
        held, index = self.function.captured_inputs, self._bound.index(number)
        if index >= len(held):
            raise self._differs()
        return held[index]

    def variable(self, number: int) -> Any:
        """The tf.Variable of an object, by the object's number: TensorFlow's loader makes it."""
        handle = self.tensor(number)
        variable = next((v for v in self.function.variables if v.handle is handle), None)
        if variable is None:
            raise self._differs()
        return variable

    def _differs(self) -> ImportFailed:
        reason = "a function that holds other objects for TensorFlow"
        return ImportFailed(f"{self._model.path} cannot be read as a SavedModel", where=self._name, found=reason)


def _argument_shape(definition: Any, position: int) -> PartialShape | None:
    for attr in (definition.attr, definition.arg_attr[position].attr if position in definition.arg_attr else {}):
        for name, index in (("_input_shapes", position), ("_output_shapes", 0)):
            if name in attr and len(attr[name].list.shape) > index:
                return decode_shape(attr[name].list.shape[index])
    return None


def _structure(value: Any) -> Any:
    """A StructuredValue as lists, dictionaries and leaves; NotUnderstood for tensors that are made of several."""
    kind = value.WhichOneof("kind")
    if kind in ("tuple_value", "list_value"):
        return [_structure(v) for v in getattr(value, kind).values]
    if kind == "dict_value":
        return {key: _structure(v) for key, v in value.dict_value.fields.items()}
    if kind == "none_value":
        return None
    if kind in ("tensor_spec_value", "bounded_tensor_spec_value"):
        return kind
    raise NotUnderstood(f"a signature has a value of kind {kind!r}")
