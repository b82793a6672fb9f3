"""On which side a mask is padded follows from the operators that make it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import producers
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.recover.masks.padding import Padding, padding_of

B = symbol("B")
STEPS = np.arange(5, dtype=np.int32)
LENGTHS = TensorType((B,), DType.i32)


def found(function: Callable[..., Array], *inputs: TensorType, axis: int = 0) -> Padding:
    graph = trace_graph(function, list(inputs) or [LENGTHS])
    return padding_of(graph.outputs[0], axis, producers(graph))


def below(lengths: Array) -> Array:
    """What tf.sequence_mask makes.   bool[b,5]"""
    return ops.less(STEPS[None], ops.expand_dims(lengths, 1))


def time_first(mask: Array) -> Array:
    return ops.transpose(mask, [1, 0])


def numbers(lengths: Array, dtype: DType = DType.f32) -> Array:
    """A mask of 0 and 1.   [5,b]"""
    return time_first(ops.cast(below(lengths), out_data_type=dtype))


CASES: dict[str, tuple[Callable[..., Array], str | None]] = {
    "step < length": (lambda n: time_first(below(n)), "right"),
    "step <= length": (lambda n: ops.less_equal(STEPS[:, None], n), "right"),
    "length > step": (lambda n: ops.greater(n, STEPS[:, None]), "right"),
    "length >= step": (lambda n: ops.greater_equal(n, STEPS[:, None]), "right"),
    "step >= length": (lambda n: ops.greater_equal(STEPS[:, None], n), "left"),
    "length < step": (lambda n: ops.less(n, STEPS[:, None]), "left"),
    "falling steps": (lambda n: ops.less(STEPS[::-1, None].copy(), n), None),
    "not": (lambda n: ops.logical_not(time_first(below(n))), "left"),
    "reversed": (lambda n: ops.reverse_v2(time_first(below(n)), [0]), "left"),
    "reversed before": (lambda n: time_first(ops.reverse_v2(below(n), [1])), "left"),
    "reversed twice": (lambda n: ops.reverse_v2(time_first(ops.reverse_v2(below(n), [1])), [0]), "right"),
    "rows reversed": (lambda n: ops.reverse_v2(time_first(below(n)), [1]), "right"),
    "another dimension": (lambda n: ops.expand_dims(time_first(below(n)), 2), "right"),
    "both": (lambda n: ops.logical_and(time_first(below(n)), ops.less(STEPS[:, None], np.int32(3))), "right"),
    "one of each side": (lambda n: ops.logical_and(time_first(below(n)), ops.less(np.int32(3), STEPS[:, None])), None),
    "numbers > 0": (lambda n: ops.greater(numbers(n), np.float32(0)), "right"),
    "0.5 < numbers": (lambda n: ops.less(np.float32(0.5), numbers(n)), "right"),
    "numbers < 1": (lambda n: ops.less(numbers(n), np.float32(1)), "left"),
    "1 - numbers > 0": (lambda n: ops.greater(ops.sub(np.float32(1), numbers(n)), np.float32(0)), "left"),
    "1 - numbers == 0": (lambda n: ops.equal(ops.sub(np.float32(1), numbers(n)), np.float32(0)), "right"),
    "whole numbers != 1": (lambda n: ops.not_equal(numbers(n, DType.i32), np.int32(1)), "left"),
    "numbers > 1": (lambda n: ops.greater(numbers(n), np.float32(1)), None),
    "equal": (lambda n: ops.equal(STEPS[:, None], n), None),
    "either": (lambda n: ops.logical_or(time_first(below(n)), ops.equal(STEPS[:, None], n)), None),
}


@pytest.mark.parametrize("name", CASES)
def test_by_construction(name: str) -> None:
    function, side = CASES[name]
    assert found(function).side == side


def test_steps_counted_at_run_time() -> None:
    def function(x: Array, lengths: Array) -> Array:
        steps = ops.range_(np.int32(0), ops.gather(ops.shape(x), np.int32(0), axis=0), np.int32(1))
        return ops.less(ops.expand_dims(steps, 1), lengths)

    assert found(function, TensorType((symbol("T"),), DType.f32), LENGTHS).side == "right"


@pytest.mark.parametrize(
    ("dtypes", "side"),
    [
        ([DType.i8], None),
        ([DType.u8], None),
        ([DType.i16, DType.i32], None),
        ([DType.i8, DType.f32], None),
        ([DType.i64], "right"),
        ([DType.i64, DType.i32], "right"),
        ([DType.f32], "right"),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, list) else str(value),
)
def test_step_numbers_that_wrap_have_no_order(dtypes: list[DType], side: str | None) -> None:
    def function(x: Array, lengths: Array) -> Array:
        steps = ops.range_(np.int32(0), ops.gather(ops.shape(x), np.int32(0), axis=0), np.int32(1))
        for dtype in dtypes:
            steps, lengths = (ops.cast(v, out_data_type=dtype) for v in (steps, lengths))
        return ops.less(ops.expand_dims(steps, 1), lengths)

    assert found(function, TensorType((symbol("T"),), DType.f32), LENGTHS).side == side


def test_a_limit_that_changes_with_the_step() -> None:
    assert found(lambda n: ops.less(STEPS[:, None], n), TensorType((5, B), DType.i32)).side is None


@pytest.mark.parametrize(
    ("mask", "side"),
    [
        ([1, 1, 0, 0], "right"),
        ([0, 0, 1, 1], "left"),
        ([1, 1, 1, 1], "right"),
        ([1, 0, 1, 1], None),
        ([0, 1, 0, 0], None),
    ],
)
def test_constants(mask: list[int], side: str | None) -> None:
    constant = np.array(mask, bool)[:, None]
    assert found(lambda x: ops.logical_or(x, x), TensorType((4, 1), DType.bool)).side is None
    graph = trace_graph(lambda: constant, [])
    assert padding_of(graph.outputs[0], 0, {}).side == side


def test_a_promise_is_about_the_value_that_decides() -> None:
    ids = TensorType((B, 5), DType.i32)
    mask = found(lambda x: ops.reverse_v2(time_first(ops.not_equal(x, np.int32(0))), [0]), ids)
    assert (mask.side, mask.axis, mask.flipped) == (None, 1, True)
    assert (mask.promised("right"), mask.promised("left")) == ("left", "right")


@pytest.mark.parametrize("counts", [True, False])
def test_a_promise_is_about_the_steps_that_do_not_count(counts: bool) -> None:
    """Whether a mask says which steps count or which do not, padding on the right leaves those on the left."""
    ids = TensorType((B, 5), DType.i32)

    def mask(x: Array) -> Array:
        is_zero = time_first(ops.equal(x, np.int32(0)))
        return ops.logical_not(is_zero) if counts else is_zero

    assert found(mask, ids).negated is counts
    assert found(mask, ids).promised("right", counts) == ("right" if counts else "left")


@pytest.mark.parametrize(("first", "is_root"), [(lambda x: x, True), (lambda x: ops.reverse_v2(below(x), [0]), False)])
def test_rows_read_at_a_counter_are_those_of_the_whole_mask(first: Callable[[Array], Array], is_root: bool) -> None:
    """What is promised of an input is true of its first rows; what operators decide need not be: rows may recur."""

    def function(x: Array, steps: Array) -> Array:
        mask = first(x)
        length = ops.gather(ops.shape(mask), np.int32(0), axis=0)
        counter = ops.range_(np.int32(0), ops.gather(ops.shape(steps), np.int32(0), axis=0), np.int32(1))
        return ops.gather(mask, ops.floor_mod(counter, length), axis=0)

    mask = TensorType((symbol("T"), 5), DType.f32) if is_root else LENGTHS
    graph = trace_graph(function, [mask, TensorType((symbol("N"),), DType.f32)])
    padding = padding_of(graph.outputs[0], 0, producers(graph))
    assert (padding.side, padding.root is graph.inputs[0]) == (None, is_root)
