"""Recurrences that only resemble a known one are not taken for it, and answer right as what they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.base.measure import relative_error
from tests.end_to_end.invokes import TOLERANCE, check_invokes
from tests.end_to_end.recurrences.test_recurrent import fused_counts
from tests.models.decoys import decoys_loops, decoys_lstm, decoys_other
from tests.models.decoys.decoys import DECOYS
from tests.slow import every_other

_KNOWN: dict[str, Callable[[], Any]] = {
    **{name: partial(decoys_lstm.in_loop, change) for name, change in decoys_lstm.TWINS.items()},
    "masked": lambda: decoys_loops.masked(decoys_loops.both_kept),
    "unrolled": decoys_loops.in_python,
    "rnn": lambda: decoys_other.simple(decoys_other.rnn),
    "rnn_relu": lambda: decoys_other.simple(decoys_other.rnn_relu),
    "step": lambda: decoys_other.single_lstm(decoys_lstm.lstm),
    "svdf": decoys_other.svdf,
}


def test_there_are_enough() -> None:
    assert len(DECOYS) >= 30


@pytest.mark.parametrize("name", every_other(DECOYS))
def test_decoy(name: str) -> None:
    decoy = DECOYS[name]
    lite = jfuse.convert(decoy.build(), verify=False, **decoy.options)
    found = fused_counts(lite.report.operators)
    assert all(count <= decoy.fused.get(family, 0) for family, count in found.items())
    assert not any(operator.startswith("bidirectional") for operator in lite.report.operators)
    check_invokes(lite, decoy.draw)


@pytest.mark.slow
@pytest.mark.parametrize("name", DECOYS)
def test_the_decoy_is_something_else(name: str) -> None:
    decoy = DECOYS[name]
    inputs = decoy.draw(0)
    found, known = (_answers(build(), inputs) for build in (decoy.build, decoy.twin))
    assert found.keys() == known.keys()
    assert max(relative_error(found[key], known[key]) for key in known) > 1000 * TOLERANCE


@pytest.mark.parametrize("name", every_other(_KNOWN))
def test_what_the_decoys_resemble_is_known(name: str) -> None:
    lite = jfuse.convert(_KNOWN[name](), verify=False, forms=jfuse.Forms(padding="right" if name == "masked" else None))
    assert sum(fused_counts(lite.report.operators).values()) == 1


def _answers(function: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {key: np.asarray(value) for key, value in function(*inputs.values()).items()}
