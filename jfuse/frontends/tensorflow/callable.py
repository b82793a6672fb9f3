"""Concrete functions and tf.functions that a program holds in its hands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jfuse.errors import ImportFailed
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
    names = unique_names([_input_name(t) for t in function.inputs[:count]])
    return TfSignature(key, LiveFunction(function), names, flat_names(function.structured_outputs, "output"))


def _traced(source: Any, input_signature: Sequence[Any] | None) -> Any:
    if not is_traceable(source):
        raise ImportFailed("this is no TensorFlow function", found=repr(source))
    try:
        return source.get_concrete_function(*(input_signature or ()))
    except Exception as error:  # tracing runs the user's code
        raise ImportFailed(
            "the tf.function could not be traced",
            found=reason_of(error),
            remedy="pass input_signature=[tf.TensorSpec(…), …], or a concrete function",
        ) from error


def _input_name(tensor: Any) -> str:
    attr = tensor.op.node_def.attr
    named = attr["_user_specified_name"].s.decode() if "_user_specified_name" in attr else ""
    return named or str(tensor.op.name)


def _name(function: Any) -> str:
    """What its author called a function: TensorFlow has `b"__inference_name_12"` for a concrete one."""
    name = getattr(function, "__name__", None) or getattr(function, "name", None) or DEFAULT_KEY
    text = name.decode() if isinstance(name, bytes) else str(name)
    return _TRACED.sub(r"\1", text)


def reason_of(error: Exception) -> str:
    """What a library raised, on one line and without colours."""
    text = " ".join(_COLOUR.sub("", str(error)).split())
    return f"{type(error).__name__}: {text[:_LONGEST]}" + (" …" if len(text) > _LONGEST else "")
