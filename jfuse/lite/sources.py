"""Sources of `TFLiteConverter`'s constructors, and the tensor names that the official converter writes for each.

The official files name the tensors of inputs and outputs after the SavedModel that it converts: `serving_default_x:0`,
`StatefulPartitionedCall:0`. Scripts find tensors by these names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from jfuse.frontends.keras import is_keras_model
from jfuse.frontends.saved_model_file import described_signatures
from jfuse.frontends.tensorflow.callable import DEFAULT_KEY, is_concrete, is_traceable, reaches_variables
from jfuse.frontends.tensorflow.signature import unique_names
from jfuse.ir.graph import Program, Signature
from jfuse.lite.conversion_metadata import SourceKind
from jfuse.lite.tensor_names import official_names
from jfuse.tflite.names import Names
from jfuse.tflite.write.subgraph import TensorNames

_EndNames: TypeAlias = tuple[Sequence[str], Sequence[str]]
"""The names of the tensors of a signature's inputs and outputs."""
_EXPORTED = "serve"
"""The second signature that Keras 3's `model.export` writes: the default one under another key."""


@dataclass(frozen=True)
class ConverterSource:
    """Something to convert.

    loads: arguments of `jfuse.load`, with `specs` for a function of jax arrays; `input_names` names its arguments.
    signatures: the keys to convert; None for all. kept: objects that must live as long.
    """

    loads: Any
    kind: SourceKind
    signatures: tuple[str, ...] | None = None
    kept: Any = None
    specs: Sequence[Any] | None = None
    input_names: tuple[str, ...] = ()

    @property
    def has_signatures(self) -> bool:
        """Whether the file gets signatures: a bare concrete function and a function of jax arrays have none."""
        return self.kind is not SourceKind.JAX and not is_concrete(self.loads)

    def arranged(self, program: Program) -> Program:
        """The program with the official order of a SavedModel's inputs, and names of a Keras 2 model's outputs."""
        if self.kind is SourceKind.SAVED_MODEL:
            described = described_signatures(Path(self.loads))
            return _with_signatures(program, lambda s: _sorted_inputs(s, described[s.key].inputs))
        if self.kind is SourceKind.KERAS_MODEL and not _is_keras_3(self.loads):
            return _with_signatures(program, lambda s: replace(s, output_names=_keras_2_names(self.loads, s)))
        return program

    def tensor_names(self, program: Program) -> Mapping[str, TensorNames]:
        """The official names of the tensors of each signature."""
        ends = self._end_names(program)
        return {s.key: official_names(s.graph, *ends[s.key]) for s in program.signatures}

    def _end_names(self, program: Program) -> Mapping[str, _EndNames]:
        if self.kind is SourceKind.SAVED_MODEL:
            described = described_signatures(Path(self.loads))
            return {
                s.key: (
                    tuple(described[s.key].inputs.get(name, name) for name in s.input_names),
                    tuple(described[s.key].outputs.get(name, name) for name in s.output_names),
                )
                for s in program.signatures
            }
        if self.kind is SourceKind.JAX:
            return {s.key: (self.input_names, s.output_names) for s in program.signatures}
        if not self.has_signatures:
            outputs = len(program.signatures[0].output_names)
            names = ["Identity" + (f"_{i}" if i else "") for i in range(outputs)]
            return {program.signatures[0].key: (program.signatures[0].input_names, tuple(names))}
        calls = self._calls(program)
        return {s.key: _called(s, calls[s.key]) for s in program.signatures}

    def _calls(self, program: Program) -> Mapping[str, str]:
        """The names of the SavedModel's nodes that call the functions, by signature key."""
        if self.kind is SourceKind.KERAS_MODEL:
            call = "StatefulPartitionedCall" if self.loads.weights else "PartitionedCall"
            # model.export of Keras 3 has a signature before this one.
            call += "_1" * _is_keras_3(self.loads)
            return {s.key: call for s in program.signatures}
        unique = Names(separator="_")
        stateful = {key: function.function_def.signature.is_stateful for key, function in self.loads.items()}
        return {
            key: unique.unique("Stateful" * is_stateful + "PartitionedCall")
            for key, is_stateful in sorted(stateful.items())
        }


def _is_keras_3(model: Any) -> bool:
    return all(base.__module__.split(".")[0] != "tf_keras" for base in type(model).__mro__)


def _keras_2_names(model: Any, signature: Signature) -> tuple[str, ...]:
    """The names of a Keras 2 model's outputs: of its layers, or numbers from 1 for a model that has no such names."""
    count = len(signature.output_names)
    names = tuple(getattr(model, "output_names", None) or ())
    return names if len(names) == count == len({*names}) else tuple(f"output_{i + 1}" for i in range(count))


def _sorted_inputs(signature: Signature, tensors: Mapping[str, str]) -> Signature:
    """The signature with its inputs in the order of their tensors' names, as the official importer sorts them."""
    names = signature.input_names
    order = sorted(range(len(names)), key=lambda i: tensors.get(names[i], names[i]))
    inputs = (*(signature.graph.inputs[i] for i in order), *signature.graph.inputs[len(names) :])
    is_exposed = bool(signature.exposed) or order == list(range(len(names)))  # the last inputs are states
    graph = signature.graph if is_exposed else replace(signature.graph, inputs=inputs)
    return signature if is_exposed else replace(signature, graph=graph, input_names=tuple(names[i] for i in order))


def _with_signatures(program: Program, change: Callable[[Signature], Signature]) -> Program:
    return replace(program, signatures=tuple(change(s) for s in program.signatures))


def _called(signature: Signature, call: str) -> _EndNames:
    numbers = {name: i for i, name in enumerate(sorted(signature.output_names))}
    inputs = tuple(f"{signature.key}_{name}:0" for name in signature.input_names)
    return inputs, tuple(f"{call}:{numbers[name]}" for name in signature.output_names)


def saved_model_source(path: Any, keys: Sequence[str] | None, tags: Collection[str] | None) -> ConverterSource:
    """A SavedModel folder. Raises ValueError for keys or tags that it does not have."""
    described = described_signatures(Path(path), tags)
    for key in keys or ():
        if key not in described:
            raise ValueError(f"Invalid signature key '{key}' found. Valid keys are '{','.join(described)}'.")
    if not keys and not described:
        raise ValueError("Only support at least one signature key.")
    chosen = tuple(keys or sorted(described))
    if not keys and {_EXPORTED, DEFAULT_KEY} <= set(chosen) and described[_EXPORTED].is_like(described[DEFAULT_KEY]):
        chosen = tuple(key for key in chosen if key != _EXPORTED)
    return ConverterSource(str(path), SourceKind.SAVED_MODEL, chosen)


def keras_source(model: Any) -> ConverterSource:
    """A Keras 3 or tf_keras model. Raises ValueError for anything else."""
    if not is_keras_model(model):
        raise ValueError(f"from_keras_model takes a Keras model, not a {type(model).__name__}")
    return ConverterSource(model, SourceKind.KERAS_MODEL)


def function_source(functions: Sequence[Any], trackable: Any) -> ConverterSource:
    """Concrete functions; without the object that holds their variables the file gets no signature."""
    for function in functions:
        if not is_concrete(function):
            hint = " To get the ConcreteFunction from a Function, call get_concrete_function."
            text = "This function takes in a list of ConcreteFunction."
            raise ValueError(text + (hint if is_traceable(function) else ""))
    if not functions:
        raise ValueError("No ConcreteFunction is specified.")
    has_owner = bool(trackable) and not is_concrete(trackable) and not is_traceable(trackable)
    has_owner = has_owner and (len(functions) > 1 or reaches_variables(trackable, functions[0]))
    if len(functions) > 1 and not has_owner:
        raise ValueError(
            "This converter can only convert a single ConcreteFunction. Converting multiple functions is under "
            "development."
        )
    if not has_owner:
        return ConverterSource(functions[0], SourceKind.CONCRETE_FUNCTIONS, kept=trackable)
    keys = [DEFAULT_KEY] if len(functions) == 1 else unique_names([f.graph.name for f in functions])
    return ConverterSource(dict(zip(keys, functions, strict=True)), SourceKind.CONCRETE_FUNCTIONS, kept=trackable)


def jax_source(functions: Sequence[Any], inputs: Sequence[Any]) -> ConverterSource:
    """A function of jax arrays, and for each argument its name and an array of its sizes and dtype."""
    if not functions:
        raise ValueError("No serving func is specified.")
    if not inputs:
        raise ValueError("Input tensors are not specified.")
    if len(inputs) != len(functions):
        raise ValueError(f"Input tensor mapping len {len(inputs)} does not match serving func len {len(functions)}.")
    if len(functions) > 1:
        raise ValueError("Currently only support single serving function.")
    if not isinstance(inputs[0], tuple | list):
        raise ValueError("The input placeholders are not a dictionary.")
    names, specs = zip(*inputs[0], strict=True) if inputs[0] else ((), ())
    for name, spec in inputs[0]:
        if not (hasattr(spec, "shape") and hasattr(spec, "dtype")):
            raise ValueError(f"The placeholder of {name!r} is a {type(spec).__name__}, not an array.")
    return ConverterSource(functions[0], SourceKind.JAX, specs=specs, input_names=names)
