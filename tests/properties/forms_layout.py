"""Forms that move elements: reshapes, slices, joins, gathers, pads."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.properties.choose import Chooser
from tests.properties.forms import Form
from tests.properties.values import Step, Unfit


def reshape(c: Chooser) -> Step:
    """Axes merged, split, or all in one; an open size is -1, or read from the shape."""
    x = c.value(lambda v: v.rank >= 1)
    shape = list(c.pool[x].shape)
    kind = c.one_of("merge", "split", "flat", "unit", "read")
    if kind == "merge" and len(shape) > 1:
        i = c.integer(0, len(shape) - 2)
        a, b = shape[i : i + 2]
        shape[i : i + 2] = [None if a is None or b is None else a * b]
    elif kind == "split":
        i = c.integer(0, len(shape) - 1)
        size = shape[i]
        if size is None or size < 2:
            raise Unfit("no size to split")
        factor = c.one_of(*[f for f in range(1, size + 1) if size % f == 0])
        shape[i : i + 1] = [factor, size // factor]
    elif kind == "flat":
        shape = [None]
    elif kind == "unit":
        shape.insert(c.integer(0, len(shape)), 1)
    if kind != "read" and shape.count(None) <= 1:
        return Step("reshape", tf.reshape, (x,), {"shape": [-1 if d is None else d for d in shape]})
    return Step("reshape_like_read", _reshape_read, (x,), {"merged": c.integer(0, max(0, c.pool[x].rank - 2))})


def _reshape_read(x: Any, merged: int) -> Any:
    shape = tf.shape(x)
    if x.shape.rank < 2:
        return tf.reshape(x, [shape[0], 1])
    sizes = [shape[i] for i in range(x.shape.rank)]
    sizes[merged : merged + 2] = [sizes[merged] * sizes[merged + 1]]
    return tf.reshape(x, tf.stack(sizes))


def transpose(c: Chooser) -> Step:
    """Any permutation."""
    x = c.value(lambda v: v.rank >= 2)
    return Step("transpose", tf.transpose, (x,), {"perm": c.permutation(c.pool[x].rank)})


def expand_dims(c: Chooser) -> Step:
    """A new axis."""
    x = c.value(lambda v: v.rank < 5)
    return Step("expand_dims", tf.expand_dims, (x,), {"axis": c.integer(-c.pool[x].rank - 1, c.pool[x].rank)})


def squeeze(c: Chooser) -> Step:
    """Axes of size 1 dropped, some or all that are known."""
    x = c.value(lambda v: 1 in v.shape)
    ones = [i for i, d in enumerate(c.pool[x].shape) if d == 1]
    axes = [a for a in ones if c.flag()] or ones
    return Step("squeeze", tf.squeeze, (x,), {"axis": axes})


def strided_slice(c: Chooser) -> Step:
    """All masks, strides of either sign, bounds within and beyond."""
    x = c.value(lambda v: v.rank >= 1)
    count = c.integer(1, c.pool[x].rank)
    strides = [c.one_of(1, 1, 1, 2, -1, -2) for _ in range(count)]
    begin = [c.integer(-4, 3) for _ in range(count)]
    end = [c.integer(-3, 6) for _ in range(count)]
    bits = [c.one_of("", "", "", "begin", "end", "both", "shrink", "new", "ellipsis") for _ in range(count)]
    if bits.count("ellipsis") > 1:
        raise Unfit("two ellipses")

    def mask(*names: str) -> int:
        return sum(1 << i for i, bit in enumerate(bits) if bit in names)

    options = {
        "begin": begin,
        "end": end,
        "strides": strides,
        "begin_mask": mask("begin", "both"),
        "end_mask": mask("end", "both"),
        "shrink_axis_mask": mask("shrink"),
        "new_axis_mask": mask("new"),
        "ellipsis_mask": mask("ellipsis"),
    }
    return Step("strided_slice", tf.strided_slice, (x,), options)


def slice_(c: Chooser) -> Step:
    """tf.slice; -1 is what is left."""
    x = c.value(lambda v: v.rank >= 1)
    begin = [c.integer(0, 1) for _ in c.pool[x].shape]
    size = [c.one_of(-1, -1, 1, 2) for _ in c.pool[x].shape]
    return Step("slice", tf.slice, (x,), {"begin": begin, "size": size})


def reverse(c: Chooser) -> Step:
    """Some axes turned round."""
    x = c.value(lambda v: v.rank >= 1)
    return Step("reverse", tf.reverse, (x,), {"axis": c.axes(c.pool[x].rank)})


def roll(c: Chooser) -> Step:
    """One axis rolled."""
    x = c.value(lambda v: v.rank >= 1)
    return Step("roll", tf.roll, (x,), {"shift": c.integer(-3, 3), "axis": c.integer(0, c.pool[x].rank - 1)})


def tile(c: Chooser) -> Step:
    """Repeated axes."""
    x = c.value(lambda v: v.rank >= 1)
    return Step("tile", tf.tile, (x,), {"multiples": [c.one_of(1, 1, 2, 3) for _ in c.pool[x].shape]})


def repeat(c: Chooser) -> Step:
    """Each element of an axis several times."""
    x = c.value(lambda v: v.rank >= 1)
    return Step("repeat", tf.repeat, (x,), {"repeats": 2, "axis": c.axis(c.pool[x].rank)})


def broadcast_to(c: Chooser) -> Step:
    """Axes of size 1 widened, new ones in front."""
    x = c.value()
    shape = c.pool[x].shape
    if None in shape:
        raise Unfit("an open size")
    wide = [c.integer(1, 3) if d == 1 else d for d in shape]
    front = [c.integer(1, 3) for _ in range(c.integer(0, 1))]
    return Step("broadcast_to", tf.broadcast_to, (x,), {"shape": [*front, *wide]})


def pad(c: Chooser) -> Step:
    """Constants, zero or not, or mirrored elements around it."""
    x = c.value(lambda v: v.rank >= 1 and v.dtype != np.bool_)
    paddings = [[c.one_of(0, 0, 1, 2), c.one_of(0, 0, 1, 2)] for _ in c.pool[x].shape]
    mode = c.one_of("CONSTANT", "CONSTANT", "REFLECT", "SYMMETRIC")
    options: dict[str, Any] = {"paddings": paddings, "mode": mode}
    if mode == "CONSTANT":
        options["constant_values"] = c.one_of(0, 0, 2)
    return Step("pad", tf.pad, (x,), options)


def concat(c: Chooser) -> Step:
    """Two or three values that differ along one axis at most."""
    x = c.value(lambda v: v.rank >= 1)
    axis = c.axis(c.pool[x].rank)

    def fits(v: Any) -> bool:
        if v.rank != c.pool[x].rank or v.dtype != c.pool[x].dtype:
            return False
        pairs = zip(v.arrays, c.pool[x].arrays, strict=True)
        return all(np.delete(a.shape, axis).tolist() == np.delete(b.shape, axis).tolist() for a, b in pairs)

    others = [c.value(fits) for _ in range(c.integer(1, 2))]
    return Step("concat", lambda *xs, axis: tf.concat(xs, axis), (x, *others), {"axis": axis})


def stack(c: Chooser) -> Step:
    """Values of one type on a new axis."""
    x = c.value(lambda v: v.rank < 4)

    def fits(v: Any) -> bool:
        same = v.dtype == c.pool[x].dtype
        return same and all(a.shape == b.shape for a, b in zip(v.arrays, c.pool[x].arrays, strict=True))

    others = [c.value(fits) for _ in range(c.integer(0, 2))]
    axis = c.integer(-c.pool[x].rank - 1, c.pool[x].rank)
    return Step("stack", lambda *xs, axis: tf.stack(xs, axis), (x, *others), {"axis": axis})


def _known_axis(c: Chooser, x: int, least: int = 1) -> int:
    axes = [i for i, d in enumerate(c.pool[x].shape) if d is not None and d >= least]
    if not axes:
        raise Unfit("no known size")
    return c.one_of(*axes)


def split(c: Chooser) -> Step:
    """Equal parts, given sizes, or one by one."""
    x = c.value(lambda v: v.rank >= 1)
    axis = _known_axis(c, x)
    size = c.pool[x].shape[axis]
    assert size is not None
    if size > 6:
        raise Unfit("too many parts")
    kind = c.one_of("equal", "sizes", "unstack")
    if kind == "unstack":
        return Step("unstack", tf.unstack, (x,), {"axis": axis})
    if kind == "equal":
        parts = c.one_of(*[p for p in range(1, size + 1) if size % p == 0])
        return Step("split", tf.split, (x,), {"num_or_size_splits": parts, "axis": axis})
    first = c.integer(1, size)
    sizes = [first, size - first] if size > first else [first]
    return Step("split", tf.split, (x,), {"num_or_size_splits": sizes, "axis": axis})


def gather(c: Chooser) -> Step:
    """Constant places along a known axis."""
    x = c.value(lambda v: v.rank >= 1)
    axis = _known_axis(c, x)
    size = c.pool[x].shape[axis]
    assert size is not None
    shape = c.one_of((), (1,), (3,), (2, 2))
    places = np.random.default_rng(c.integer(0, 9)).integers(0, size, shape).astype(c.one_of(np.int32, np.int64))
    return Step("gather", tf.gather, (x,), {"indices": places, "axis": axis})


def gather_computed(c: Chooser) -> Step:
    """Computed places in a constant table, or in a value."""
    ids = c.value(lambda v: v.dtype in (np.int32, np.int64))
    if c.flag():
        table = c.constant((5, *(c.integer(1, 3) for _ in range(c.integer(0, 2)))))
        return Step("lookup", lambda i, table: tf.gather(table, i % 5), (ids,), {"table": table})
    x = c.value(lambda v: v.rank >= 1)
    axis = _known_axis(c, x)
    size = c.pool[x].shape[axis]
    return Step("gather_at", _gather_at, (x, ids), {"size": size, "axis": axis})


def _gather_at(x: Any, ids: Any, size: int, axis: int) -> Any:
    return tf.gather(x, ids % size, axis=axis)


def gather_nd(c: Chooser) -> Step:
    """Places in the known leading axes, or in a batch."""
    x = c.value(lambda v: v.rank >= 1 and v.shape[0] is not None)
    depth = c.integer(1, c.pool[x].rank)
    sizes = c.pool[x].shape[:depth]
    if None in sizes or 0 in sizes:
        raise Unfit("an open size, or no place at all")
    rng = np.random.default_rng(c.integer(0, 9))
    places = np.stack([rng.integers(0, s, 3) for s in sizes], -1).astype(np.int32)
    return Step("gather_nd", tf.gather_nd, (x,), {"indices": places})


def one_hot(c: Chooser) -> Step:
    """Ids to rows."""
    x = c.value(lambda v: v.dtype in (np.int32, np.int64) and v.rank < 4)
    return Step("one_hot", tf.one_hot, (x,), {"depth": c.integer(1, 5), "axis": c.integer(-1, c.pool[x].rank)})


def blocks(c: Chooser) -> Step:
    """Space to depth and back."""
    x = c.value(lambda v: v.rank == 4)
    call = c.one_of(tf.nn.space_to_depth, tf.nn.depth_to_space)
    return Step(call.__name__, call, (x,), {"block_size": 2})


def from_shape(c: Chooser) -> Step:
    """Tensors made from an open size: zeros, counters, the size itself."""
    x = c.value(lambda v: v.rank >= 1)
    axis = c.integer(0, c.pool[x].rank - 1)
    name = c.one_of(*_FROM_SHAPE)
    return Step(name, _FROM_SHAPE[name], (x,), {"axis": axis})


_FROM_SHAPE: dict[str, Any] = {
    "size_of": lambda x, axis: tf.shape(x)[axis],
    "count_up": lambda x, axis: tf.range(tf.shape(x)[axis]),
    "zeros_of": lambda x, axis: tf.zeros([tf.shape(x)[axis], 2]),
    "fill_of": lambda x, axis: tf.fill([2, tf.shape(x)[axis] + 1], 1.5),
    "drop_last": lambda x, axis: x[: tf.shape(x)[0] - 1],
    "mask_of": lambda x, axis: tf.range(tf.shape(x)[axis])[:, None] >= tf.range(tf.shape(x)[axis])[None],
    "divided": lambda x, axis: tf.cast(tf.shape(x)[axis], tf.float32) / 2.0,
}


FORMS: tuple[Form, ...] = (
    reshape,
    reshape,
    transpose,
    transpose,
    expand_dims,
    squeeze,
    strided_slice,
    strided_slice,
    slice_,
    reverse,
    roll,
    tile,
    repeat,
    broadcast_to,
    pad,
    concat,
    stack,
    split,
    gather,
    gather_computed,
    gather_nd,
    one_hot,
    blocks,
    from_shape,
)
