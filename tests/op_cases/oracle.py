"""What TensorFlow itself answers for a row, eagerly."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case


@cache
def tensorflow_results(case: Case) -> tuple[np.ndarray, ...]:
    """The results of the row's op through `tf.raw_ops`."""
    import tensorflow as tf

    def call() -> tuple[Any, ...]:
        return apply_op(case, [tensor_of(a) for a in case.arrays])

    return tuple(_array(r) for r in (tf.function(call, jit_compile=True)() if case.compiled else call()))


def apply_op(case: Case, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The results of the row's op on tensors, in the graph that is being traced or eagerly."""
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops
    from tensorflow.python.framework import op_def_registry

    function = getattr(gen_xla_ops if case.op.startswith("Xla") else tf.raw_ops, case.op)
    op_def = op_def_registry.get(case.op)
    renamed = _renamed(function, op_def)
    given = {**_operands(operands, op_def.input_arg), **{k: _attribute(v) for k, v in case.attributes.items()}}
    results = function(**{renamed.get(name, name): value for name, value in given.items()})
    return tuple(tf.nest.flatten(results)[: case.results])


def _operands(operands: Sequence[Any], declared: Any) -> dict[str, Any]:
    lists = sum(_is_list(arg) for arg in declared)
    length = (len(operands) - (len(declared) - lists)) // max(lists, 1)
    tensors = iter(operands)
    return {a.name: [next(tensors) for _ in range(length)] if _is_list(a) else next(tensors) for a in declared}


def _attribute(value: Any) -> Any:
    import tensorflow as tf

    return tf.as_dtype(value.numpy) if isinstance(value, DType) else value


def _renamed(function: Callable[..., Any], op_def: Any) -> dict[str, str]:
    """The inputs and attributes that Python calls by another name (`reduction_indices`: `axis`)."""
    inferred = {n for a in op_def.input_arg for n in (a.type_attr, a.number_attr, a.type_list_attr)}
    names = [a.name for a in (*op_def.input_arg, *op_def.attr) if a.name not in inferred]
    parameters = [p for p in inspect.signature(function).parameters if p != "name"]
    old, new = ([n for n in some if n not in others] for some, others in ((names, parameters), (parameters, names)))
    return dict(zip(old, new, strict=True))


def _is_list(arg: Any) -> bool:
    return bool(arg.number_attr or arg.type_list_attr)


def tensor_of(array: np.ndarray) -> Any:
    """An array as a tensor, of strings where it holds objects."""
    import tensorflow as tf

    return tf.constant(array, tf.string if array.dtype == object else tf.as_dtype(array.dtype))


def _array(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.numpy(), object) if tensor.dtype.name == "string" else np.asarray(tensor.numpy())
