"""Loops of open length whose steps depend on their number are refused, however that is spelled; masks are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import NotFused
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.kernels.core.op import Array
from jfuse.proof.prove import prove
from jfuse.proof.step_numbers import step_number_uses
from tests.cells import BATCH, INPUTS, STEPS, UNITS, f32, sums, update

LATE = np.repeat([0, 2], [100, 900]).astype(np.float32)[:, None]
I32 = TensorType((), DType.i32)


def floats(x: Array) -> Array:
    return ops.cast(x, out_data_type=DType.f32)


def narrowed(t: Array, kind: DType) -> Array:
    return ops.cast(ops.cast(t, out_data_type=kind), out_data_type=DType.i32)


def chosen(condition: Array) -> Array:
    return ops.select_v2(condition, np.float32(2), np.float32(0))


USES: dict[str, Callable[[Array], Array]] = {
    "division": lambda t: floats(ops.div(t, np.int32(100))),
    "floor division": lambda t: floats(ops.floor_div(t, np.int32(100))),
    "remainder": lambda t: floats(ops.floor_mod(t, np.int32(128))),
    "right shift": lambda t: floats(ops.right_shift(t, np.int32(7))),
    "xor": lambda t: floats(ops.bitwise_xor(t, np.int32(128))),
    "cast to i8": lambda t: floats(ops.sub(narrowed(t, DType.i8), t)),
    "cast to u8": lambda t: floats(ops.sub(narrowed(t, DType.u8), t)),
    "cast to i16": lambda t: floats(narrowed(ops.mul(t, np.int32(300)), DType.i16)),
    "compared after a cast": lambda t: chosen(ops.less(narrowed(t, DType.i8), np.int32(0))),
    "compared with 100": lambda t: chosen(ops.greater(t, np.int32(100))),
    "compared after a sum": lambda t: chosen(ops.greater(ops.sub(t, np.int32(100)), np.int32(0))),
    "compared as a float": lambda t: chosen(ops.greater(floats(t), np.float32(100.5))),
    "a table": lambda t: ops.gather(LATE, t),
    "one row of a table": lambda t: ops.slice_(LATE, ops.pack(t, np.int32(0), axis=0), [1, 1]),
    "a float": lambda t: ops.logistic(ops.sub(ops.mul(floats(t), np.float32(10)), np.float32(1000))),
    "a square": lambda t: floats(ops.mul(t, t)),
}
PLACES: dict[str, Callable[[Array], Array]] = {
    "nothing": lambda t: np.float32(0),
    "the first step": lambda t: chosen(ops.equal(t, np.int32(0))),
    "beyond the first step": lambda t: chosen(ops.greater(t, np.int32(0))),
    "counted from one": lambda t: chosen(ops.less(ops.add(t, np.int32(1)), np.int32(1))),
}


def step_of(extra: Callable[[Array], Array]) -> Callable[..., Any]:
    def step(h: Array, c: Array, x: Array, t: Array) -> tuple[Array, ...]:
        i, f, g, o = sums(x, h)
        new_h, new_c = update([i, ops.add(f, extra(t)), g, o], c)
        return new_h, new_c, new_h

    return step


def looped(extra: Callable[[Array], Array], length: Any = STEPS) -> Graph:
    """A scan whose step gets its number, as a loop over tf.range hands it in."""
    state = f32(BATCH, UNITS)
    body = trace_graph(step_of(extra), [state, state, f32(BATCH, INPUTS), I32], "step")

    def run(h: Array, c: Array, xs: Array) -> Any:
        steps = ops.range_(0, ops.strided_slice(ops.shape(xs), [0], [1], [1], shrink_axis_mask=1), 1)
        return scan([h, c, xs, steps], [body], consts=0, carries=2, length=length, reverse=False)

    return trace_graph(run, [state, state, f32(length, BATCH, INPUTS)])


def counted(extra: Callable[[Array], Array]) -> Graph:
    """A scan that counts its steps in a state of its own."""
    state = f32(BATCH, UNITS)

    def step(h: Array, c: Array, t: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, y = step_of(extra)(h, c, x, t)
        return new_h, new_c, ops.add(t, np.int32(1)), y

    body = trace_graph(step, [state, state, I32, f32(BATCH, INPUTS)], "step")

    def run(h: Array, c: Array, xs: Array) -> Any:
        results = scan([h, c, np.int32(0), xs], [body], consts=0, carries=3, length=STEPS, reverse=False)
        return [results[0], results[3]]

    return trace_graph(run, [state, state, f32(STEPS, BATCH, INPUTS)])


@pytest.mark.parametrize("graph_of", [looped, counted])
@pytest.mark.parametrize("use", USES)
def test_a_step_number_that_is_read_as_a_number(use: str, graph_of: Callable[..., Graph]) -> None:
    assert next(step_number_uses(graph_of(USES[use])), None) is not None


@pytest.mark.parametrize("graph_of", [looped, counted])
@pytest.mark.parametrize("use", PLACES)
def test_a_step_number_that_samples_show(use: str, graph_of: Callable[..., Graph]) -> None:
    assert next(step_number_uses(graph_of(PLACES[use])), None) is None


def test_all_steps_of_a_known_length_are_run() -> None:
    assert next(step_number_uses(looped(USES["division"], 7)), None) is None


def test_a_float_that_decays_from_step_to_step() -> None:
    state = f32(BATCH, UNITS)

    def step(h: Array, c: Array, share: Array, x: Array) -> tuple[Array, ...]:
        i, f, g, o = sums(x, h)
        new_h, new_c = update([i, ops.add(f, share), g, o], c)
        return new_h, new_c, ops.mul(share, np.float32(0.99))

    body = trace_graph(step, [state, state, f32(), f32(BATCH, INPUTS)], "step")

    def run(h: Array, c: Array, xs: Array) -> Any:
        return scan([h, c, np.float32(1), xs], [body], consts=0, carries=3, length=STEPS, reverse=False)[0]

    graph = trace_graph(run, [state, state, f32(STEPS, BATCH, INPUTS)])
    assert next(step_number_uses(graph), None) is not None


def test_lengths_of_rows_are_compared_with_step_numbers() -> None:
    state = f32(BATCH, UNITS)

    def step(lengths: Array, h: Array, c: Array, x: Array, t: Array) -> tuple[Array, ...]:
        new_h, new_c = update(sums(x, h), c)
        counts = ops.expand_dims(ops.less(t, lengths), 1)
        return ops.select_v2(counts, new_h, h), ops.select_v2(counts, new_c, c)

    lengths = TensorType((BATCH,), DType.i32)
    body = trace_graph(step, [lengths, state, state, f32(BATCH, INPUTS), I32], "step")

    def run(lengths: Array, h: Array, c: Array, xs: Array) -> Any:
        steps = ops.range_(0, ops.strided_slice(ops.shape(xs), [0], [1], [1], shrink_axis_mask=1), 1)
        return scan([lengths, h, c, xs, steps], [body], consts=1, carries=2, length=STEPS, reverse=False)

    graph = trace_graph(run, [lengths, state, state, f32(STEPS, BATCH, INPUTS)])
    assert next(step_number_uses(graph), None) is None


def test_the_refusal_of_a_step_number() -> None:
    plain = looped(lambda t: ops.zeros_like(floats(t)))
    with pytest.raises(NotFused) as refusal:
        prove(looped(USES[next(iter(USES))]), plain)
    assert refusal.value.condition == "step_number"
