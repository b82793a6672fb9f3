"""Lookup tables of TensorFlow: what a table holds is read while the function is imported, as constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.errors import LowerError
from jfuse.frontends.tensorflow.graph import Walker, handles
from jfuse.frontends.tensorflow.variables import Resource
from jfuse.ir.types import DType
from jfuse.lowering.ops.text.table import find
from jfuse.tf_nodes.attributes import decode_dtype
from jfuse.tf_nodes.presence import need_tensorflow


@handles("LookupTableFind", "LookupTableFindV2")
def _find(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    table, x, default = operands
    keys, values = _contents(table, *(decode_dtype(node.attr[name].type) for name in ("Tin", "Tout")))
    return (find(keys, values, x, default),)


@handles("LookupTableSize", "LookupTableSizeV2")
def _size(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    (table,) = operands
    handle = _handle(table)
    import tensorflow as tf

    return (np.asarray(tf.raw_ops.LookupTableSizeV2(table_handle=handle)),)


def _contents(table: Any, key: DType, value: DType) -> tuple[np.ndarray, np.ndarray]:
    """The keys and values of a table, whatever it was filled from: tensors, or a file among a SavedModel's assets."""
    handle = _handle(table)
    import tensorflow as tf

    dtypes = {"Tkeys": tf.as_dtype(key.numpy), "Tvalues": tf.as_dtype(value.numpy)}
    try:
        exported = tf.raw_ops.LookupTableExportV2(table_handle=handle, **dtypes)
    except tf.errors.OpError as error:
        raise LowerError("the contents of a table cannot be read", where=table.name, found=error.message) from error
    keys, values = (np.asarray(tensor.numpy()) for tensor in exported)
    order = np.argsort(keys, kind="stable")  # TensorFlow gives them in an order that changes from run to run
    return keys[order], values[order]


def _handle(table: Any) -> Any:
    if not isinstance(table, Resource) or table.handle is None:
        raise LowerError(
            "a table that the function itself makes has no TFLite spelling",
            remedy="make it outside of the function, and keep it in the model",
        )
    if table.written:
        raise LowerError(
            f"the table {table.name!r} is changed by the function, and tables of TFLite never change",
            remedy="look up in a tf.lookup.StaticHashTable, or keep what changes in a tf.Variable",
        )
    need_tensorflow("a table cannot be read without TensorFlow")
    return table.handle()
