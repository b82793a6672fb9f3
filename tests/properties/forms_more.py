"""Forms of ops that have their own kernels: sorting, scattering, segments, matrices, patches, bits, volumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.properties.choose import Chooser
from tests.properties.forms import PRODUCT, SPECIAL, SUM, Form
from tests.properties.values import Step, Unfit, Value


def _known(c: Chooser, x: int, axis: int) -> int:
    size = c.pool[x].shape[axis]
    if not size:
        raise Unfit("an open size, or no place at all")
    return size


def top_k(c: Chooser) -> Step:
    """The largest elements and their places."""
    x = c.value(lambda v: v.rank >= 1 and v.dtype in (np.float32, np.int32))
    k = c.integer(1, _known(c, x, -1))
    return Step("top_k", tf.math.top_k, (x,), {"k": k})


def sort(c: Chooser) -> Step:
    """Sorted elements, or their order."""
    x = c.value(lambda v: v.rank >= 1 and v.dtype in (np.float32, np.int32))
    _known(c, x, -1)
    direction = c.one_of("ASCENDING", "DESCENDING")
    if c.flag():
        return Step("argsort", tf.argsort, (x,), {"direction": direction, "stable": True})
    return Step("sort", tf.sort, (x,), {"direction": direction})


def scatter(c: Chooser) -> Step:
    """Rows put into zeros, or into a value's known leading axis."""
    x = c.value(lambda v: v.rank >= 1 and v.dtype in (np.float32, np.int32) and v.shape[0] is not None)
    size = _known(c, x, 0)
    places = np.random.default_rng(c.integer(0, 9)).permutation(size)[:, None].astype(np.int32)
    if c.flag():
        return Step("scatter_nd", _scatter_nd, (x,), {"places": places, "rows": size + c.integer(0, 2)})
    name = c.one_of("tensor_scatter_nd_update", "tensor_scatter_nd_add", "tensor_scatter_nd_max")
    row = c.constant((1, *(1 if d is None else d for d in c.pool[x].shape[1:])), c.pool[x].dtype)
    if None in c.pool[x].shape:
        raise Unfit("an open size")
    return Step(name, getattr(tf, name), (x,), {"indices": places[:1], "updates": row}, 2)


def _scatter_nd(x: Any, places: np.ndarray, rows: int) -> Any:
    shape = tf.concat([[rows], tf.shape(x)[1:]], 0)
    return tf.scatter_nd(places, x, shape)


def segments(c: Chooser) -> Step:
    """Sums of rows by segment."""
    x = c.value(lambda v: v.rank >= 1 and v.dtype in (np.float32, np.int32) and v.shape[0] is not None)
    ids = np.sort(np.random.default_rng(c.integer(0, 9)).integers(0, 3, _known(c, x, 0))).astype(np.int32)
    if c.flag():
        return Step("segment_sum", tf.math.segment_sum, (x,), {"segment_ids": ids}, SUM)
    name = c.one_of("unsorted_segment_sum", "unsorted_segment_max", "unsorted_segment_min", "unsorted_segment_prod")
    if name in ("unsorted_segment_max", "unsorted_segment_min"):
        ids = np.arange(len(ids), dtype=np.int32) % 3  # of an empty segment they give the least number there is
    options = {"segment_ids": ids, "num_segments": 3 if len(ids) >= 3 else len(ids)}
    return Step(name, getattr(tf.math, name), (x,), options, SUM)


def matrix(c: Chooser) -> Step:
    """Diagonals and bands."""
    x = c.value(lambda v: v.dtype in (np.float32, np.int32) and v.rank >= 1)
    kind = c.one_of("band_part", "diag", "diag_part")
    if kind == "diag":
        return Step("diag", tf.linalg.diag, (x,))
    if kind == "diag_part":
        return Step("diag_part", tf.linalg.diag_part, (x,))
    options = {"num_lower": c.integer(-1, 2), "num_upper": c.integer(-1, 2)}
    return Step("band_part", tf.linalg.band_part, (x,), options)


def batched_gather(c: Chooser) -> Step:
    """Places of each row."""
    x = c.value(lambda v: v.rank >= 2)
    size = _known(c, x, 1)

    def fits(v: Value) -> bool:
        pairs = zip(v.arrays, c.pool[x].arrays, strict=True)
        return v.dtype == np.int32 and v.rank >= 1 and all(a.shape[0] == b.shape[0] for a, b in pairs)

    places = c.value(fits)
    return Step("gather_of_rows", _gather_of_rows, (x, places), {"size": size})


def _gather_of_rows(x: Any, places: Any, size: int) -> Any:
    return tf.gather(x, places % size, axis=1, batch_dims=1)


def sequence(c: Chooser) -> Step:
    """Masks from lengths, sequences turned round up to a length."""
    lengths = c.value(lambda v: v.dtype in (np.int32, np.int64) and v.rank == 1)
    if c.flag():
        return Step("sequence_mask", tf.sequence_mask, (lengths,), {"maxlen": c.integer(1, 5)})

    def fits(v: Value) -> bool:
        pairs = zip(v.arrays, c.pool[lengths].arrays, strict=True)
        known = v.rank >= 2 and v.shape[1] is not None
        return known and v.dtype in (np.float32, np.int32) and all(a.shape[0] == b.shape[0] for a, b in pairs)

    x = c.value(fits)
    return Step("reverse_sequence", _reverse_sequence, (x, lengths), {"size": _known(c, x, 1)})


def _reverse_sequence(x: Any, lengths: Any, size: int) -> Any:
    return tf.reverse_sequence(x, lengths % (size + 1), seq_axis=1, batch_axis=0)


_BITS: dict[str, Callable[..., Any]] = {
    "bitwise_and": tf.bitwise.bitwise_and,
    "bitwise_or": tf.bitwise.bitwise_or,
    "bitwise_xor": tf.bitwise.bitwise_xor,
    "right_shift": lambda x, y: tf.bitwise.right_shift(x, tf.abs(y) % 4),
    "truncatemod": lambda x, y: tf.math.mod(x, tf.abs(y) + 1),
}


def bits(c: Chooser) -> Step:
    """Bitwise ops of integers."""
    name = c.one_of(*_BITS)
    x = c.value(lambda v: v.dtype == np.int32)
    y = c.partner(x, constant=False)
    assert isinstance(y, int)
    return Step(name, _BITS[name], (x, y))


def tests(c: Chooser) -> Step:
    """What floats are."""
    call = c.one_of(tf.math.is_nan, tf.math.is_inf, tf.math.is_finite)
    return Step(call.__name__, call, (c.floats(),))


def patches(c: Chooser) -> Step:
    """Windows of an image side by side."""
    x = c.value(lambda v: v.dtype == np.float32 and v.rank == 4)
    size, stride, rate = c.integer(1, 3), c.integer(1, 2), c.integer(1, 2)
    options = {
        "sizes": [1, size, size, 1],
        "strides": [1, stride, stride, 1],
        "rates": [1, rate, rate, 1],
        "padding": c.one_of("SAME", "VALID"),
    }
    return Step("extract_patches", tf.image.extract_patches, (x,), options, PRODUCT)


def space_to_batch(c: Chooser) -> Step:
    """Blocks moved into the batch."""
    x = c.value(lambda v: v.rank == 4 and v.dtype in (np.float32, np.int32))
    paddings = [[0, c.integer(0, 1)], [c.integer(0, 1), 0]]
    return Step("space_to_batch", tf.space_to_batch, (x,), {"block_shape": [2, 2], "paddings": paddings})


def volume(c: Chooser) -> Step:
    """Convolutions and pooling of volumes."""
    x = c.value(lambda v: v.dtype == np.float32 and v.rank == 5)
    strides, padding = [1, *(c.integer(1, 2) for _ in range(3)), 1], c.one_of("SAME", "VALID")
    if c.flag():
        size = [1, *(c.integer(1, 2) for _ in range(3)), 1]
        call, rounding = c.one_of((tf.nn.max_pool3d, 0.0), (tf.nn.avg_pool3d, SUM))
        return Step(call.__name__, call, (x,), {"ksize": size, "strides": strides, "padding": padding}, rounding)
    filters = c.constant((c.integer(1, 2), c.integer(1, 2), c.integer(1, 2), _known(c, x, -1), 2))
    return Step("conv3d", tf.nn.conv3d, (x,), {"filters": filters, "strides": strides, "padding": padding}, PRODUCT)


def local_response(c: Chooser) -> Step:
    """Local response normalization."""
    x = c.value(lambda v: v.dtype == np.float32 and v.rank == 4)
    options = {"depth_radius": c.integer(1, 2), "bias": 1.5, "alpha": 0.3, "beta": c.one_of(0.5, 0.75)}
    return Step("local_response_normalization", tf.nn.local_response_normalization, (x,), options, SPECIAL)


FORMS: tuple[Form, ...] = (
    top_k,
    sort,
    scatter,
    segments,
    matrix,
    batched_gather,
    sequence,
    bits,
    tests,
    patches,
    space_to_batch,
    volume,
    local_response,
)
