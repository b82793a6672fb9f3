"""Inputs for verification keep what the user promised of masks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jfuse.base.errors import VerifyFailed
from jfuse.ir.graph import Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.proof.samples import Padded
from jfuse.records.conversion import PaddingPromise
from jfuse.verification.inputs.padded_inputs import keep_promises


def changed(
    mask: Callable[[Array], Array], array: np.ndarray, side: str = "right", axis: int = 1, *, in_numbers: bool = False
) -> np.ndarray:
    graph = trace_graph(mask, [TensorType(array.shape, DType.of(array.dtype))])
    promise = PaddingPromise(side, axis, graph, "layer", in_numbers=in_numbers)
    return keep_promises(Signature("main", graph, ("x",), ("y",)), {"x": array}, [promise])["x"]


def lengths(mask: np.ndarray) -> np.ndarray:
    counts: np.ndarray = mask.sum(1)
    assert (mask == (np.arange(mask.shape[1]) < counts[:, None])).all()
    assert len(set(counts)) > 1
    return counts


RANDOM = np.random.default_rng(0)


def test_ids_with_a_zero_as_padding() -> None:
    ids = RANDOM.integers(0, 5, (8, 6)).astype(np.int32)
    lengths(changed(lambda x: ops.not_equal(x, np.int32(0)), ids) != 0)


def test_rows_of_a_masked_value() -> None:
    x = RANDOM.standard_normal((8, 6, 3)).astype(np.float32)
    found = changed(lambda x: ops.reduce_any(ops.not_equal(x, np.float32(-7)), [2]), x)
    counts = lengths((found != -7).any(2))
    for row, count in enumerate(counts):
        np.testing.assert_array_equal(found[row, :count], x[row, :count])


def test_a_mask_that_is_an_input() -> None:
    lengths(changed(lambda m: ops.logical_or(m, m), RANDOM.random((8, 6)) < 0.5))


def test_a_mask_in_numbers_holds_0_and_1() -> None:
    x = RANDOM.standard_normal((8, 6)).astype(np.float32)
    found = changed(lambda m: ops.add(m, np.float32(0)), x, in_numbers=True)
    assert set(found.reshape(-1)) == {0.0, 1.0}
    lengths(found != 0)


def test_left_padding() -> None:
    ids = RANDOM.integers(1, 5, (8, 6)).astype(np.int32)
    lengths((changed(lambda x: ops.not_equal(x, np.int32(0)), ids, "left") != 0)[:, ::-1])


def test_what_cannot_be_kept_is_an_error() -> None:
    ids = RANDOM.integers(1, 5, (8, 6)).astype(np.int32)
    with pytest.raises(VerifyFailed, match="the mask of layer is padding on the right"):
        changed(lambda x: ops.equal(ops.floor_mod(x, np.int32(2)), STRIPES), ids)


STRIPES = np.array([[0, 1, 0, 1, 0, 1]], np.int32)


@pytest.mark.parametrize("side", ["right", "left"])
def test_drawn_masks_have_no_gaps_and_all_lengths(side: str) -> None:
    mask = Padded(0, side).draw(np.random.default_rng(0), (4, 200, 1))
    counts = mask.sum(0)[:, 0]
    assert set(counts) == {0, 1, 2, 3, 4}
    steps = mask[:, :, 0] if side == "right" else mask[::-1, :, 0]
    np.testing.assert_array_equal(steps, np.arange(4)[:, None] < counts)
