"""Masked steps are read without their mask where one mask decides on everything, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import NotFused
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.recover.cells.lstm import recover_lstm
from jfuse.lowering.recover.cells.step import Step
from jfuse.lowering.recover.masks.mask import with_mask
from jfuse.lowering.rules import Proposal
from tests.cells import BATCH, INPUTS, UNITS, Loop, f32, keras

STATE, INPUT = f32(BATCH, UNITS), f32(BATCH, INPUTS)


def flag(*shape: Any) -> TensorType:
    return TensorType(shape, DType.bool)


def masked(condition: Callable[[Array], Array], *, inverted: bool = False) -> Callable[..., tuple[Array, ...]]:
    """Keras's masked step: a copy of h that is collected, h and c."""

    def step(copy: Array, h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, x)

        def selected(new: Array, old: Array) -> Array:
            return ops.select_v2(condition(mask), *((old, new) if inverted else (new, old)))

        return selected(new_h, copy), selected(new_h, h), selected(new_c, c), selected(new_h, copy)

    return step


def loop(step: Callable[..., Any], mask: TensorType | None = None, carries: int = 3, **options: Any) -> Loop:
    return Loop(step, carries=[STATE] * carries, xs=[flag(BATCH, 1) if mask is None else mask, INPUT], **options)


def recovered(step: Step) -> Proposal:
    assert step.mask is not None
    return with_mask(recover_lstm(step), step.mask, step.body.inputs, step.carries)


CONDITIONS: dict[str, tuple[Callable[[Array], Array], TensorType, bool]] = {
    "as it is": (lambda m: m, flag(BATCH, 1), True),
    "tiled": (lambda m: ops.tile(m, [1, UNITS]), flag(BATCH, 1), True),
    "a vector": (lambda m: ops.expand_dims(m, 1), flag(BATCH), True),
    "negated": (ops.logical_not, flag(BATCH, 1), False),
    "negated twice": (lambda m: ops.logical_not(ops.logical_not(m)), flag(BATCH, 1), True),
    "through numbers": (
        lambda m: ops.greater(ops.cast(m, out_data_type=DType.f32), np.float32(0)),
        flag(BATCH, 1),
        True,
    ),
}


@pytest.mark.parametrize("inverted", [False, True], ids=["new first", "old first"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_masks_in_many_spellings(name: str, inverted: bool) -> None:
    condition, mask, positive = CONDITIONS[name]
    step = Step(loop(masked(condition, inverted=inverted), mask).eqn())
    found = recovered(step)
    assert found.operands == {"x": 4, "h": 1, "c": 2, "mask": 3, "held": 0}
    assert found.attributes["results"] == ("held", "h", "c", "y_held")
    assert found.attributes["counts"] is (positive is not inverted)


def test_a_batch_of_many_rows() -> None:
    step = Step(Loop(masked(lambda m: m), carries=[f32(9, UNITS)] * 3, xs=[flag(9, 1), f32(9, INPUTS)], batch=9).eqn())
    assert step.mask is not None


def test_what_fills_the_steps_that_do_not_count() -> None:
    def zeros(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, x)
        states = ops.select_v2(mask, new_h, h), ops.select_v2(mask, new_c, c)
        return *states, ops.select_v2(mask, new_h, np.float32(0)), states[0]

    found = recovered(Step(loop(zeros, carries=2).eqn()))
    assert found.attributes["results"] == ("h", "c", "y_fill", "y_h")
    np.testing.assert_array_equal(found.constants["fill"], np.float32(0))


def test_a_fill_that_no_step_changes() -> None:
    def filled(fill: Array, h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, x)
        return ops.select_v2(mask, new_h, h), ops.select_v2(mask, new_c, c), ops.select_v2(mask, new_h, fill)

    step = Step(Loop(filled, consts=[STATE], carries=[STATE] * 2, xs=[flag(BATCH, 1), INPUT]).eqn())
    found = recovered(step)
    assert found.operands == {"fill": 0, "h": 1, "c": 2, "mask": 3, "x": 4}
    assert found.attributes["results"] == ("h", "c", "y_fill")


def blended(blend: Callable[[Array, Array, Array], Array]) -> Callable[..., tuple[Array, ...]]:
    """A step whose states a mask in floats blends with the old ones; h is collected, and h with zeros for old ones."""

    def step(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, x)
        states = blend(mask, h, new_h), blend(mask, c, new_c)
        return *states, states[0], ops.mul(ops.sub(np.float32(1), mask), new_h)

    return step


BLENDS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "both sides": lambda m, old, new: ops.add(ops.mul(old, m), ops.mul(new, ops.sub(np.float32(1), m))),
    "difference": lambda m, old, new: ops.add(new, ops.mul(m, ops.sub(old, new))),
    "a choice": lambda m, old, new: ops.select_v2(ops.greater(m, np.float32(0)), old, new),
}


@pytest.mark.parametrize("name", BLENDS)
def test_blends_by_a_mask_in_floats(name: str) -> None:
    found = recovered(Step(loop(blended(BLENDS[name]), f32(BATCH, 1), carries=2).eqn()))
    assert found.operands == {"x": 3, "h": 0, "c": 1, "mask": 2}
    assert found.attributes["results"] == ("h", "c", "y_h", "y_fill")
    assert found.attributes["counts"] is False
    np.testing.assert_array_equal(found.constants["fill"], np.float32(0))


def test_blends_by_truth_values_as_numbers() -> None:
    """Where the mask is set x times 1 is x; where it is not the new states are not read."""

    def step(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, ops.mul(x, ops.cast(mask, out_data_type=DType.f32)))
        return tuple(ops.select_v2(mask, n, o) for n, o in ((new_h, h), (new_c, c), (new_h, h)))

    found = recovered(Step(loop(step, carries=2).eqn()))
    assert found.operands == {"x": 3, "h": 0, "c": 1, "mask": 2}
    assert found.attributes["results"] == ("h", "c", "y_h")
    assert found.attributes["counts"] is True


def test_a_blend_that_keeps_a_tenth_is_no_mask() -> None:
    def leaking(mask: Array, old: Array, new: Array) -> Array:
        return ops.add(ops.mul(old, mask), ops.mul(new, ops.sub(np.float32(1.1), mask)))

    assert Step(loop(blended(leaking), f32(BATCH, 1), carries=2).eqn()).mask is None


def one_state_only(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(h, c, x)
    return ops.select_v2(mask, new_h, h), new_c, new_h


def one_state_the_other_way(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(h, c, x)
    return ops.select_v2(mask, new_h, h), ops.select_v2(mask, c, new_c), ops.select_v2(mask, new_h, h)


def states_exchanged(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(h, c, x)
    return ops.select_v2(mask, new_h, c), ops.select_v2(mask, new_c, h), ops.select_v2(mask, new_h, h)


def unmasked_output(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(h, c, x)
    return ops.select_v2(mask, new_h, h), ops.select_v2(mask, new_c, c), new_h


def filled_by_the_input(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(h, c, ops.strided_slice(x, [0, 0], [0, INPUTS], [1, 1], begin_mask=1, end_mask=1))
    wide = ops.concatenation(x, x, axis=1)
    row = ops.strided_slice(wide, [0, 0], [0, UNITS], [1, 1], begin_mask=1, end_mask=1)
    return ops.select_v2(mask, new_h, h), ops.select_v2(mask, new_c, c), ops.select_v2(mask, new_h, row)


def rows_of_others(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(h, c, x)
    flipped = ops.reverse_v2(mask, [0])
    return tuple(ops.select_v2(flipped, n, o) for n, o in ((new_h, h), (new_c, c), (new_h, h)))


def any_row(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(h, c, x)
    some = ops.reduce_any(mask, [0], keep_dims=True)
    return tuple(ops.select_v2(some, n, o) for n, o in ((new_h, h), (new_c, c), (new_h, h)))


def mask_as_a_value(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(h, c, x)
    other_h = ops.add(h, ops.cast(ops.logical_not(mask), out_data_type=DType.f32))
    return tuple(ops.select_v2(mask, n, o) for n, o in ((new_h, other_h), (new_c, c), (new_h, h)))


DECOYS = [
    one_state_only,
    one_state_the_other_way,
    states_exchanged,
    unmasked_output,
    filled_by_the_input,
    rows_of_others,
    any_row,
    mask_as_a_value,
]


@pytest.mark.parametrize("decoy", DECOYS, ids=lambda d: d.__name__)
def test_decoys_keep_their_selects(decoy: Callable[..., Any]) -> None:
    step = Step(loop(decoy, carries=2).eqn())
    assert step.mask is None
    with pytest.raises(NotFused):
        recover_lstm(step)


def test_two_masks() -> None:
    def step(h: Array, c: Array, one: Array, other: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, x)
        return ops.select_v2(one, new_h, h), ops.select_v2(other, new_c, c), ops.select_v2(one, new_h, h)

    types = [flag(BATCH, 1), flag(BATCH, 1), INPUT]
    assert Step(Loop(step, carries=[STATE] * 2, xs=types).eqn()).mask is None


def test_c_instead_of_h_in_a_collected_result() -> None:
    def step(h: Array, c: Array, mask: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, x)
        return ops.select_v2(mask, new_h, h), ops.select_v2(mask, new_c, c), ops.select_v2(mask, new_h, c)

    with pytest.raises(NotFused, match="masked_output"):
        recovered(Step(loop(step, carries=2).eqn()))
