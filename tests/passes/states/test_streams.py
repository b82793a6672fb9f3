"""Which ops keep the steps of a sequence apart: pieces answer as the whole in the source's graph, or are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import LowerError
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import composite, if_, scan
from jfuse.passes.context import Context
from jfuse.passes.options import Forms
from jfuse.passes.states.modes import apply_state_mode
from jfuse.running.runner import Runner
from tests.passes.states.test_modes import cell

T, WIDTH, BATCH = symbol("T"), 4, 2
SEQUENCE = TensorType((BATCH, T, WIDTH), DType.f32)
ROW = TensorType((BATCH, WIDTH), DType.f32)
RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(WIDTH, WIDTH)).astype(np.float32)
FILTER = RNG.normal(size=(WIDTH, 3, 1, WIDTH)).astype(np.float32)
CUTS = [1, 1, 4]
VALID = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
WINDOW = {**VALID, "filter_height": 3, "filter_width": 1}


def recurrence(x: Any) -> Any:
    """tanh(x + h·W) at every step.   f[b,t,w] -> f[b,t,w]"""
    steps = ops.transpose(x, [1, 0, 2])
    body = trace_graph(cell, [ROW, ROW], "step")
    h = np.zeros((BATCH, WIDTH), np.float32)
    _, every = scan([h, steps], (body,), consts=0, carries=1, length=steps.type.shape[0], reverse=False)
    return ops.transpose(every, [1, 0, 2])


def streamed(graph: Graph, mode: Any = "keep") -> Signature:
    names = tuple(f"x{i}" for i in range(len(graph.inputs))), tuple(f"y{i}" for i in range(len(graph.outputs)))
    program = Program((Signature("main", graph, *names),))
    return apply_state_mode(program, Context(forms=Forms(state=mode))).signatures[0]


def sizes(x: Any, *shape: Any) -> Any:
    """A shape as an operand, with the number of steps of x where a dimension is None."""
    steps = ops.strided_slice(ops.shape(x), [1], [2], [1])
    return ops.concatenation(*(steps if d is None else np.array([d], np.int32) for d in shape), axis=0)


def rows_merged(x: Any) -> Any:
    rows = ops.reshape(x, np.array([-1, WIDTH], np.int32))
    return ops.reshape(ops.fully_connected(rows, WEIGHTS, None), sizes(x, BATCH, None, WIDTH))


def image(x: Any) -> Any:
    return ops.expand_dims(x, 2)


def padded(x: Any, steps: int) -> Any:
    return ops.pad(x, [[0, 0], [steps, 0], [0, 0]])


def windows(x: Any) -> Any:
    y = ops.conv_2d(image(x), FILTER, None, **VALID)
    return ops.squeeze(y, squeeze_dims=(2,))


def dilated(x: Any) -> Any:
    y = ops.conv_2d(image(padded(x, 6)), FILTER, None, **VALID, dilation_h_factor=3)
    return ops.squeeze(y, squeeze_dims=(2,))


def greatest(x: Any) -> Any:
    lowest = np.float32(-3)
    y = ops.max_pool_2d(image(ops.padv2(x, [[0, 0], [2, 0], [0, 0]], lowest)), **WINDOW)
    return ops.squeeze(y, squeeze_dims=(2,))


def two_windows_behind_one_padding(x: Any) -> Any:
    return windows(windows(padded(x, 4)))


def padded_twice(x: Any) -> Any:
    """The second padding stands behind steps that the first one has put before the piece."""
    return windows(windows(padded(padded(x, 2), 2)))


def part_of_what_precedes(x: Any) -> Any:
    """The window looks at every step and the one before, of three that were put before the piece."""
    y = ops.slice_(padded(x, 3), [0, 1, 0], [-1, -1, -1])
    return windows(y)


def turned_twice(x: Any) -> Any:
    return ops.reverse_v2(ops.mul(ops.reverse_v2(x, [1]), 2.0), [1])


def features_taken_apart(x: Any) -> Any:
    a, b = ops.split(2, x, num_splits=2)
    parts = ops.unpack(x, axis=2)
    both = ops.concatenation(b, ops.gather(a, np.array([1, 0], np.int32), axis=2), axis=2)
    return ops.add(both, ops.pack(*parts[::-1], axis=2))


def over_features(x: Any) -> Any:
    y = ops.mul(ops.softmax(x), ops.sum_(x, [2], keep_dims=True))
    return ops.add(ops.cumsum(y, 2), ops.expand_dims(ops.mean(x, [2]), -1))


def looked_up(x: Any) -> Any:
    return ops.gather(WEIGHTS, ops.arg_max(x, 2, output_type=DType.i32), axis=0)


def by_matrix(x: Any) -> Any:
    return ops.add(ops.batch_matmul(x, WEIGHTS), ops.batch_matmul(x, WEIGHTS, adj_y=True))


def filled(x: Any) -> Any:
    ones = ops.fill(sizes(x, BATCH, None, 1), np.float32(2))
    return ops.add(ops.mul(x, ones), ops.zeros_like(x))


def annotated(x: Any) -> Any:
    body = trace_graph(lambda v: ops.mul(ops.tanh(v), 2.0), [SEQUENCE], "body")
    return composite([x], (body,), name="acme.Twice", arguments=("v",))[0]


APART: tuple[Callable[[Any], Any], ...] = (
    rows_merged, dilated, greatest, two_windows_behind_one_padding, padded_twice, part_of_what_precedes, turned_twice,
    features_taken_apart, over_features, looked_up, by_matrix, filled, annotated,
)  # fmt: skip


def pieces_of(signature: Signature, cuts: list[int], x: np.ndarray, *others: np.ndarray) -> np.ndarray:
    states = [state.initial.array for state in signature.states]
    found, run = [], Runner(signature.graph, quick=True)
    for piece in np.split(x, np.cumsum(cuts)[:-1], axis=1):
        y, *states = run([piece, *others, *states])
        found.append(y)
    return np.concatenate(found, 1)


@pytest.mark.parametrize("build", APART, ids=lambda build: build.__name__)
@pytest.mark.parametrize("place", ["before", "after"])
def test_steps_stay_apart(build: Callable[[Any], Any], place: str) -> None:
    graph = trace_graph(lambda x: recurrence(build(x)) if place == "before" else build(recurrence(x)), [SEQUENCE])
    signature = streamed(graph)
    x = np.random.default_rng(1).normal(size=(BATCH, 6, WIDTH)).astype(np.float32)
    (wanted,) = Runner(graph, quick=True)([x])
    np.testing.assert_allclose(pieces_of(signature, CUTS, x), wanted, atol=1e-5)  # f32, 6 steps


def test_what_is_the_same_at_every_step_may_stand_beside_them() -> None:
    """A row of each batch, repeated for all steps: the voice of a speaker."""

    def build(x: Any, voice: Any) -> Any:
        repeated = ops.broadcast_to(ops.expand_dims(voice, 1), sizes(x, BATCH, None, WIDTH))
        both = ops.concatenation(x, repeated, axis=2)
        return recurrence(ops.fully_connected(both, np.tile(WEIGHTS, 2), None, keep_num_dims=True))

    graph = trace_graph(build, [SEQUENCE, ROW])
    rng = np.random.default_rng(1)
    x, voice = (rng.normal(size=s).astype(np.float32) for s in ((BATCH, 6, WIDTH), (BATCH, WIDTH)))
    (wanted,) = Runner(graph, quick=True)([x, voice])
    np.testing.assert_allclose(pieces_of(streamed(graph), CUTS, x, voice), wanted, atol=1e-5)  # f32, 6 steps


def lastly(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: build(recurrence(x))


def firstly(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: recurrence(build(x))


def chosen(x: Any) -> Any:
    mean = trace_graph(lambda v: ops.sub(v, ops.mean(v, [1], keep_dims=True)), [SEQUENCE], "mean")
    same = trace_graph(lambda v: ops.mul(v, 1.0), [SEQUENCE], "same")
    return if_([np.array(True), x], (mean, same))[0]


def scores(x: Any) -> Any:
    return ops.batch_matmul(ops.batch_matmul(x, x, adj_y=True), x)


def padded_in_a_function(x: Any) -> Any:
    body = trace_graph(lambda v: windows(padded(v, 2)), [SEQUENCE], "body")
    return composite([x], (body,), name="acme.Windows", arguments=("v",))[0]


MIXED: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "mean": (lastly(lambda x: ops.mean(x, [1])), "it reduces over the steps"),
    "cumsum": (firstly(lambda x: ops.cumsum(x, 1)), "it adds up the steps of the piece"),
    "softmax": (lastly(lambda x: ops.softmax(ops.transpose(x, [0, 2, 1]))), "it works across the steps"),
    "products": (firstly(scores), "it multiplies every step with every other step"),
    "reverse": (lastly(lambda x: ops.reverse_v2(x, [1])), "it gives the steps of each piece in reverse"),
    "beside-reversed": (firstly(lambda x: ops.add(x, ops.reverse_v2(x, [1]))), "it combines steps with other steps"),
    "window": (firstly(lambda x: windows(ops.pad(x, [[0, 0], [1, 1], [0, 0]]))), "it pads the steps of each piece"),
    "short-padding": (lastly(lambda x: windows(padded(x, 1))), "its windows are 3 steps long"),
    "too-much-padding": (lastly(lambda x: windows(padded(x, 3))), "it gives 1 steps again"),
    "recurrence-over-padding": (firstly(lambda x: padded(x, 2)), "it goes again through steps"),
    "padding-in-a-function": (firstly(padded_in_a_function), "inside of a marked function or branch"),
    "first": (lastly(lambda x: ops.gather(x, np.int32(0), axis=1)), "it takes one step other than the last"),
    "every-second": (
        lastly(lambda x: ops.strided_slice(x, [0, 0, 0], [0, 0, 0], [1, 2, 1], begin_mask=7, end_mask=7)),
        "it takes one step in 2",
    ),
    "length": (
        lastly(lambda x: ops.mul(x, ops.cast(ops.gather(ops.shape(x), np.int32(1), axis=0), out_data_type=DType.f32))),
        "it combines every step with the number of steps",
    ),
    "sizes": (
        lambda x: (recurrence(x), ops.gather(ops.shape(x), np.int32(1), axis=0)),
        "what depends on the number of steps",
    ),
    "last-beside-all": (
        lastly(lambda x: ops.sub(x, ops.strided_slice(x, [0, -1, 0], [0] * 3, [1] * 3, begin_mask=5, end_mask=7))),
        "it combines every step with the last step",
    ),
    "unknown": (firstly(lambda x: ops.dynamic_update_slice(x, ops.mul(x, 2.0), np.zeros(3, np.int32))), "not know"),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("mode", ["keep", "io"])
def test_what_mixes_steps_is_refused(name: str, mode: str) -> None:
    build, reason = MIXED[name]
    with pytest.raises(LowerError, match=r"^steps_mix: ") as caught:
        streamed(trace_graph(build, [SEQUENCE]), mode)
    assert reason in str(caught.value)


def pixels(x: Any) -> Any:
    """Windows that look up and to the left, at a size that is open: which of the axes would be steps?"""
    y = ops.pad(x, [[0, 0], [1, 0], [1, 0], [0, 0]])
    return ops.conv_2d(y, RNG.normal(size=(WIDTH, 2, 2, WIDTH)).astype(np.float32), None, **VALID)


@pytest.mark.parametrize(
    ("build", "given"),
    [
        (lambda x: ops.mean(windows(x), [1]), SEQUENCE),
        (lambda x: ops.cumsum(x, 1), SEQUENCE),
        (pixels, TensorType((BATCH, T, symbol("U"), WIDTH), DType.f32)),
    ],
    ids=["pooled", "summed", "image"],
)
def test_what_keeps_nothing_converts_as_it_is(build: Callable[[Any], Any], given: TensorType) -> None:
    graph = trace_graph(build, [given])
    signature = streamed(graph)
    assert signature.graph is graph
    assert signature.states == ()


def test_what_another_recurrence_steps_through_must_be_known() -> None:
    """The first input streams; behind the second one stands an op that may read any step."""

    def build(x: Any, y: Any) -> Any:
        moved = ops.dynamic_update_slice(y, ops.mul(y, 2.0), np.zeros(3, np.int32))
        cut = ops.reshape(ops.strided_slice(moved, [0] * 3, [0, 4, 0], [1] * 3, begin_mask=7, end_mask=5), [4, 2, 4])
        return recurrence(x), recurrence(ops.transpose(cut, [1, 0, 2]))

    fixed = TensorType((BATCH, 8, WIDTH), DType.f32)
    with pytest.raises(LowerError, match=r"^steps_mix: dynamic_update_slice(.|\n)*does not know which steps it reads"):
        streamed(trace_graph(build, [SEQUENCE, fixed]))


def test_two_axes_of_steps_are_refused() -> None:
    square = TensorType((BATCH, WIDTH, WIDTH), DType.f32)

    def build(x: Any) -> Any:
        return ops.add(recurrence(x), ops.transpose(recurrence(ops.transpose(x, [0, 2, 1])), [0, 2, 1]))

    with pytest.raises(LowerError, match=r"steps_mix: recurrences step through several axes of the input 'x0'"):
        streamed(trace_graph(build, [square]))
