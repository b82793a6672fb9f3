"""Concrete functions and tf.functions that a program holds in its hands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from inspect import getattr_static
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.frontends.tensorflow.live_function import LiveFunction
from jfuse.frontends.tensorflow.signature import TfSignature, flat_names, unique_names

DEFAULT_KEY = "serving_default"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TRACED = re.compile(r"^__inference_(.+)_\d+$")
_LONGEST = 300  # characters of a foreign message


def is_concrete(source: object) -> bool:
    """Whether the object is a concrete function of TensorFlow."""
    return hasattr(source, "structured_outputs") and hasattr(source, "captured_inputs")


def is_traceable(source: object) -> bool:
    """Whether the object is a tf.function."""
    return hasattr(source, "get_concrete_function")


def reaches_variables(owner: Any, function: Any) -> bool:
    """Whether an object reaches all variables that a concrete function reads, so that a SavedModel of it can."""
    import tensorflow as tf

    if not function.variables:
        return True
    held = {id(item) for item in tf.train.TrackableView(owner).descendants()}
    return all(id(variable) in held for variable in function.variables)


def has_functions(source: object) -> bool:
    """Whether the object is a tf.Module with tf.functions, or a loaded SavedModel."""
    return bool(_stored_signatures(source) or _held(source))


def functions_of(source: object, input_signature: Sequence[Any] | None) -> dict[str, Any]:
    """The functions that a tf.Module or a loaded SavedModel offers, by signature key.

    These are the SavedModel's signatures, or the tf.functions with an input signature: `__call__`, and one that is
    alone, under TensorFlow's default key, others by their names.

    input_signature: for `__call__`, or the only tf.function, if it was made without.
    """
    if stored := _stored_signatures(source):
        return stored
    held = _held(source)
    if input_signature is None:
        chosen = [name for name in held if getattr(getattr(source, name), "input_signature", None) is not None]
    else:
        chosen = [name for name in held if name == "__call__" or len(held) == 1]
    if not chosen:
        raise ImportFailed(
            f"no tf.function of this {type(source).__name__} has an input signature",
            found=", ".join(held),
            remedy="pass inputs=jfuse.Inputs(input_signature=[tf.TensorSpec(…), …]) for __call__, or the tf.functions",
        )
    return {DEFAULT_KEY if name == "__call__" or len(chosen) == 1 else name: getattr(source, name) for name in chosen}


def _stored_signatures(source: object) -> dict[str, Any]:
    signatures = getattr(source, "signatures", None)
    return {k: f for k, f in signatures.items() if is_concrete(f)} if isinstance(signatures, Mapping) else {}


def _held(source: object) -> list[str]:
    """The names of an object's tf.functions; no attribute is computed for it."""
    names = dict.fromkeys([*dir(type(source)), *getattr(source, "__dict__", ())])
    return [name for name in names if is_traceable(getattr_static(source, name, None))]


def callable_signatures(source: Any, input_signature: Sequence[Any] | None) -> list[TfSignature]:
    """The signatures of a concrete function, a tf.function, or a mapping or sequence of either.

    input_signature: tf.TensorSpecs for a tf.function that was made without.
    """
    if isinstance(source, Mapping):
        return [_one(str(key), function, input_signature) for key, function in source.items()]
    if isinstance(source, list | tuple):
        if len(source) == 1:
            return [_one(DEFAULT_KEY, source[0], input_signature)]
        keys = unique_names([_name(function) for function in source])
        return [_one(key, function, input_signature) for key, function in zip(keys, source, strict=True)]
    return [_one(DEFAULT_KEY, source, input_signature)]


def _one(key: str, source: Any, input_signature: Sequence[Any] | None) -> TfSignature:
    function = source if is_concrete(source) else _traced(source, input_signature)
    count = len(function.inputs) - len(function.captured_inputs)
    names = unique_names([*_input_names(function, count)])
    return TfSignature(key, LiveFunction(function), names, _output_names(function.structured_outputs))


def _input_names(function: Any, count: int) -> Iterator[str]:
    """A name for each tensor that a function takes: a ragged one is several."""
    named = [_input_name(t) for t in function.inputs[:count]]
    position = 0
    for path, spec in _paths(function.structured_input_signature):
        parts = ragged_parts(spec)
        if parts:  # in a dict all have the name of the argument that the dict is
            name = path[-1] if isinstance(path[-1], str) else named[position]
            yield from (f"{name}_{part}" for part in parts)
            position += len(parts)
        elif _is_tensor(spec):
            yield named[position]
            position += 1
    yield from named[position:]  # of functions that have no such structure


def _leaves(nest: Any) -> list[Any]:
    import tensorflow as tf

    return list(tf.nest.flatten(nest))


def _paths(nest: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """The leaves with the keys and places that lead to them."""
    from tensorflow.python.util.nest import flatten_with_tuple_paths

    return list(flatten_with_tuple_paths(nest))


def _is_tensor(spec: Any) -> bool:
    import tensorflow as tf

    return isinstance(spec, tf.TensorSpec | tf.Tensor)


def _output_names(structure: Any) -> tuple[str, ...]:
    """Names for the tensors that a function returns, those of ragged ones by their parts."""
    leaves = [ragged_parts(leaf) for leaf in _leaves(structure) if leaf is not None]
    names = flat_names(structure, "output")
    if not any(leaves):
        return names
    pairs = zip(names, leaves, strict=True)
    return unique_names([f"{name}_{part}" if part else name for name, parts in pairs for part in parts or ("",)])


def ragged_parts(of: Any) -> tuple[str, ...]:
    """Component names of a ragged tensor or its spec, in TensorFlow's order; empty for other types."""
    import tensorflow as tf

    if not isinstance(of, tf.RaggedTensor | tf.RaggedTensorSpec):
        return ()
    splits = ("row_splits",) if of.ragged_rank == 1 else tuple(f"row_splits_{i}" for i in range(of.ragged_rank))
    return ("values", *splits)


def _traced(source: Any, input_signature: Sequence[Any] | None) -> Any:
    if not is_traceable(source):
        raise ImportFailed("this is no TensorFlow function", found=repr(source))
    try:
        return source.get_concrete_function(*(input_signature or ()))
    except Exception as error:  # tracing runs the user's code
        raise ImportFailed(
            "the tf.function could not be traced",
            found=reason_of(error),
            remedy="pass inputs=jfuse.Inputs(input_signature=[tf.TensorSpec(…), …]), or a concrete function",
        ) from error


def _input_name(tensor: Any) -> str:
    attr = tensor.op.node_def.attr
    named = attr["_user_specified_name"].s.decode() if "_user_specified_name" in attr else ""
    return named or str(tensor.op.name)


def _name(function: Any) -> str:
    """Name that the author gave to a function: TensorFlow stores `b"__inference_name_12"` for a concrete one."""
    name = getattr(function, "__name__", None) or getattr(function, "name", None) or DEFAULT_KEY
    text = name.decode() if isinstance(name, bytes) else str(name)
    return _TRACED.sub(r"\1", text)


def reason_of(error: Exception) -> str:
    """Format an exception of a library on one line, without colours."""
    text = " ".join(_COLOUR.sub("", str(error)).split())
    half = _LONGEST // 2  # what went wrong first may stand at the end, as Keras has it
    return f"{type(error).__name__}: " + (f"{text[:half]} … {text[-half:]}" if len(text) > _LONGEST else text)
