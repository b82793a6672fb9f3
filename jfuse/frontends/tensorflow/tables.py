"""Lookup tables of TensorFlow: their contents are read at import, as constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.frontends.tensorflow.graph import Walker, handles
from jfuse.frontends.tensorflow.variables import TABLES, Resource, TableContents
from jfuse.ir.types import DType
from jfuse.lowering.ops.text.table import find
from jfuse.tf_nodes.attributes import decode_dtype
from jfuse.tf_nodes.presence import need_tensorflow


@handles("LookupTableFind", "LookupTableFindV2")
def _find(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    table, x, default = operands
    dtypes = (decode_dtype(node.attr[name].type) for name in ("Tin", "Tout"))
    keys, values = _filled(walker, table) or _contents(walker, table, *dtypes)
    return (find(keys, values, x, default),)


@handles("LookupTableSize", "LookupTableSizeV2")
def _size(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    (table,) = operands
    if (filled := _filled(walker, table)) is not None:
        return (np.asarray(len(filled[0]), np.int64),)
    handle = _handle(walker, table)
    import tensorflow as tf

    return (np.asarray(tf.raw_ops.LookupTableSizeV2(table_handle=handle)),)


def _contents(walker: Walker, table: Any, key: DType, value: DType) -> tuple[np.ndarray, np.ndarray]:
    """The keys and values of a table, whatever it was filled from: tensors, or a file among a SavedModel's assets."""
    handle = _handle(walker, table)
    import tensorflow as tf

    dtypes = {"Tkeys": tf.as_dtype(key.numpy), "Tvalues": tf.as_dtype(value.numpy)}
    try:
        exported = tf.raw_ops.LookupTableExportV2(table_handle=handle, **dtypes)
    except tf.errors.OpError as error:
        raise LowerError("the contents of a table cannot be read", where=table.name, found=error.message) from error
    keys, values = (np.asarray(tensor.numpy()) for tensor in exported)
    order = np.argsort(keys, kind="stable")  # TensorFlow gives them in an order that changes from run to run
    return keys[order], values[order]


@handles(*TABLES)
def _make(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    name = node.attr["shared_name"].s
    is_constant = node.op in ("HashTable", "HashTableV2") and bool(name)
    return (Resource(node.name, None, written=True, handle=_shared(node) if is_constant else None, is_made_here=True),)


def _shared(node: Any) -> Callable[[], Any]:
    """The table of a node's name, which an initializer has filled when the model was loaded."""
    names = {name: node.attr[name].s for name in ("container", "shared_name")}
    dtypes = {name: decode_dtype(node.attr[name].type).numpy for name in ("key_dtype", "value_dtype")}

    def handle() -> Any:
        import tensorflow as tf

        return tf.raw_ops.HashTableV2(**names, **{name: tf.as_dtype(dtype) for name, dtype in dtypes.items()})

    return handle


@handles(
    *(
        f"{name}{version}"
        for name in ("InitializeTable", "LookupTableImport", "LookupTableInsert")
        for version in ("", "V2")
    )
)
def _fill(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    """Constants that every call puts into a table before it looks anything up."""
    table, keys, values = operands
    tables = walker.variables.tables
    held = tables.get(table)
    is_added = "Insert" in node.op
    makes = table.handle is None or not is_added  # what is inserted into one that goes on stays for the next call
    if (table in tables and held is None) or not makes or walker.variables.in_body or (held and held.looked_up):
        tables[table] = None
    elif not isinstance(keys, np.ndarray) or not isinstance(values, np.ndarray):
        tables[table] = None
    elif held is None or not is_added:
        tables[table] = TableContents(keys, values)
    else:
        new = ~np.isin(held.keys, keys)
        tables[table] = TableContents(
            np.concatenate([held.keys[new], keys]), np.concatenate([held.values[new], values])
        )
    return ()


@handles("LookupTableRemoveV2", "InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
def _change(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    walker.variables.tables[operands[0]] = None
    return ()


def _filled(walker: Walker, table: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """The keys, each once and sorted, and values of a table that the function fills; None for another one."""
    held = walker.variables.tables.get(table) if isinstance(table, Resource) else None
    if held is None:
        return None
    held.looked_up = True
    keys, last = np.unique(held.keys[::-1], return_index=True)  # of equal keys the last one counts
    return keys, held.values[::-1][last]


def _handle(walker: Walker, table: Any) -> Any:
    is_changed = isinstance(table, Resource) and (
        table in walker.variables.tables or (table.written and not table.is_made_here)
    )
    if not isinstance(table, Resource) or is_changed or table.handle is None:
        raise LowerError(
            f"the table {getattr(table, 'name', '')!r} is changed by the function, and tables of TFLite never change",
            expected="constants that the function puts in, outside of loops and branches, before it looks anything up",
            remedy="look up in a tf.lookup.StaticHashTable, or keep changing values in a tf.Variable",
        )
    need_tensorflow("a table cannot be read without TensorFlow")
    return table.handle()
