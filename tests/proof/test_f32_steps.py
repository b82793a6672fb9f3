"""Steps that round by large sums compute something else in f32, which a comparison in f64 does not see."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jfuse.base.errors import NotFused
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.proof.f32_steps import rounding_step
from jfuse.proof.prove import prove
from tests.cells import Loop, keras, normed

MAGIC = np.float32(1.5 * 2**23)


def scaled(h: Array, factor: float) -> Array:
    return ops.mul(h, np.float32(factor))


TRICKS: dict[str, Callable[[Array], Array]] = {
    "1.5 * 2^23": lambda h: scaled(ops.sub(ops.add(scaled(h, 128), MAGIC), MAGIC), 1 / 128),
    "taken off first": lambda h: ops.add(ops.sub(h, np.float32(98304)), np.float32(98304)),
    "taken off at another scale": lambda h: ops.sub(
        scaled(ops.add(scaled(h, 128), MAGIC), 1 / 128), np.float32(MAGIC / 128)
    ),
    "a small number to a smaller state": lambda h: scaled(
        ops.sub(ops.add(scaled(h, 2**-14), np.float32(1.5)), np.float32(1.5)), 2**14
    ),
    "from the number": lambda h: scaled(ops.sub(MAGIC, ops.sub(MAGIC, scaled(h, 128))), 1 / 128),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_a_state_that_is_rounded(trick: str) -> None:
    loop = Loop(lambda h, c, x: keras(TRICKS[trick](h), c, x))
    assert rounding_step(loop.graph()) is not None


@pytest.mark.parametrize("step", [keras, normed(), lambda h, c, x: keras(ops.add(h, np.float32(3)), c, x)])
def test_a_step_as_in_real_numbers(step: Callable[..., tuple[Array, ...]]) -> None:
    assert rounding_step(Loop(step).graph()) is None


def test_the_refusal_of_a_rounded_state() -> None:
    trick = next(iter(TRICKS.values()))
    with pytest.raises(NotFused) as refusal:
        prove(Loop(lambda h, c, x: keras(trick(h), c, x)).graph(), Loop(keras).graph())
    assert refusal.value.condition == "rounds_in_f32"
