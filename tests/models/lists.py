"""Functions on TensorLists and TensorArrays that are not the plain reads and writes of a loop."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tests.models.control import VECTOR_AND_STEPS, Row, steps, x

MODELS: dict[str, Row] = {}
raw = tf.raw_ops


def traced(*specs: Any, draw: Any = None, autograph: bool = False) -> Any:
    """Add the decorated function, as a tf.function of these inputs, to the models."""

    def add(function: Any) -> Any:
        made = tf.function(function, input_signature=list(specs), autograph=autograph)
        MODELS[function.__name__] = Row(made, draw)
        return made

    return add


def _list_of(tensor: Any, *shape: int) -> Any:
    return raw.TensorListFromTensor(tensor=tensor, element_shape=tf.constant(shape, tf.int32))


def _stacked(handle: Any, *shape: int) -> Any:
    return raw.TensorListStack(
        input_handle=handle, element_shape=tf.constant(shape, tf.int32), element_dtype=tf.float32
    )


@traced(*VECTOR_AND_STEPS, draw=steps, autograph=True)
def collected(x: Any, n: Any) -> Any:
    """A TensorArray that grows as long as it is written."""
    found = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=(3,))
    for i in tf.range(n + 1):
        found = found.write(i, x * tf.cast(i, tf.float32))
    return found.stack()


@traced(x(None, 3), autograph=True)
def fed_back(x: Any) -> Any:
    """A decoder: each step's rows, one for each of an open batch, go to a TensorArray that grows until all are done."""
    found, before, i = tf.TensorArray(tf.float32, 0, dynamic_size=True), tf.zeros_like(x), 0
    while i < 5 and tf.reduce_max(before) < 3.0:
        before = tf.tanh(before + x) + before
        found = found.write(i, before[:, :2])
        i += 1
    return found.stack()


@traced(*VECTOR_AND_STEPS, draw=steps, autograph=True)
def with_gaps(x: Any, n: Any) -> Any:
    """A TensorArray of which every second row is written."""
    found = tf.TensorArray(tf.float32, 1, dynamic_size=True, element_shape=(3,))
    for i in tf.range(n):
        found = found.write(2 * i + 1, x + tf.cast(i, tf.float32))
    return found.stack()


@traced(x(4, 3), autograph=True)
def kept_rows(x: Any) -> Any:
    """Rows that satisfy a condition, appended to a list that grows."""
    found = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=(3,)).write(0, x[0])
    for i in tf.range(4):
        if tf.reduce_sum(x[i]) > 0.0:
            found = found.write(found.size(), x[i])
    return found.stack()


@traced(x(None, 3))
def pushed(x: Any) -> Any:
    """Rows pushed to an empty list, one taken off again."""
    handle = raw.EmptyTensorList(element_shape=tf.constant(-1), max_num_elements=-1, element_dtype=tf.float32)
    for row in (x * 2.0, x + 1.0, tf.exp(x)):
        handle = raw.TensorListPushBack(input_handle=handle, tensor=row)
    handle, last = raw.TensorListPopBack(
        input_handle=handle, element_shape=tf.constant([-1, 3]), element_dtype=tf.float32
    )
    return _stacked(handle, -1, 3), last, raw.TensorListLength(input_handle=handle)


@traced(x(None, 4, 3))
def joined(x: Any) -> Any:
    """A list whose elements are put one behind the other."""
    values, lengths = raw.TensorListConcatV2(
        input_handle=_list_of(x, 4, 3),
        element_shape=tf.constant([4, 3]),
        leading_dims=tf.constant([], tf.int64),
        element_dtype=tf.float32,
    )
    return values, lengths


@traced(x(6, 3))
def cut(x: Any) -> Any:
    """A tensor cut into elements of one length."""
    handle = raw.TensorListSplit(tensor=x, element_shape=tf.constant([-1, 3]), lengths=tf.constant([2, 2, 2], tf.int64))
    return _stacked(handle, 2, 3)


@traced(x(3, 2))
def placed(x: Any) -> Any:
    """Rows at known places of a list, with gaps; some of them read, and some replaced."""
    handle = raw.TensorListScatterV2(
        tensor=x, indices=tf.constant([4, 0, 1]), element_shape=tf.constant([2]), num_elements=tf.constant(6)
    )
    again = raw.TensorListScatterIntoExistingList(input_handle=handle, tensor=x * 3.0, indices=tf.constant([2, 4, 5]))
    read = raw.TensorListGather(
        input_handle=again, indices=tf.constant([5, 0, 4]), element_shape=tf.constant([2]), element_dtype=tf.float32
    )
    return _stacked(handle, 2), _stacked(again, 2), read


@traced(x(4, 2))
def resized(x: Any) -> Any:
    """A list made longer, and one made shorter; and the shape of an element."""
    handle = _list_of(x, 2)
    longer = raw.TensorListResize(input_handle=handle, size=tf.constant(6))
    shorter = raw.TensorListResize(input_handle=handle, size=tf.constant(3))
    longer = raw.TensorListSetItem(input_handle=longer, index=tf.constant(4), item=x[0])
    longer = raw.TensorListSetItem(input_handle=longer, index=tf.constant(5), item=x[1])
    shape = raw.TensorListElementShape(input_handle=handle, shape_type=tf.int32)
    return _stacked(longer, 2), _stacked(shorter, 2), shape


@traced(x(None, 3))
def array_outside_of_loops(x: Any) -> Any:
    """A TensorArray written, read, gathered, scattered, split and concatenated in straight-line code."""
    rows = tf.TensorArray(tf.float32, 3).unstack(x[:1] * tf.ones([3, 1]))
    rows = rows.write(1, x[0] * 2.0)
    other = tf.TensorArray(tf.float32, 3, element_shape=(3,)).scatter([2, 0, 1], rows.stack())
    halves = tf.TensorArray(tf.float32, 2, infer_shape=False).split(tf.reshape(x[0], [3])[:2], [1, 1])
    return other.gather([0, 2]), other.concat(), rows.read(1), halves.concat()
