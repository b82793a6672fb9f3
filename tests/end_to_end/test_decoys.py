"""Loops that only resemble an LSTM: converted and verified as what they are."""

from __future__ import annotations

import numpy as np
import pytest

import jfuse
from jfuse.verification.measure import relative_error
from tests.end_to_end.invokes import TOLERANCE, check_invokes
from tests.models.decoys import DECOYS, build_decoy, build_lstm, telling_input

CONDITIONS = {
    "clipped_narrow": "unexplained_switch",
    "clipped_wide": "unexplained_switch",
    "h_and_c_swapped": "not_lstm",
    "tanh_missing": "not_lstm",
    "zero_row_kept": "unexplained_switch",
    "special_case_at_7": "unexplained_switch",
    "nan_to_num": "unexplained_switch",
    "batch_mean": "not_equal",
    "coupled_gates": "coupled_gates",
    "start_at_1": "not_from_zero",
    "stop_before_the_end": "not_every_step",
    "early_exit": "early_exit",
    "reversed_read": "counter_is_a_value",
    "counter_in_a_gate": "counter_is_a_value",
}


@pytest.mark.parametrize("name", DECOYS)
def test_decoy(name: str) -> None:
    lite = jfuse.convert(build_decoy(name))
    assert lite.report.operators["while"] == 1
    assert "unidirectional_sequence_lstm" not in lite.report.operators
    assert [r.condition for r in lite.report.refused] == [CONDITIONS[name]]
    assert all(d.error <= d.tolerance for d in lite.report.differences)
    check_invokes(lite)
    check_invokes(lite, lambda seed: {"x": telling_input(name, seed)})


@pytest.mark.parametrize("name", DECOYS)
def test_the_decoy_is_no_lstm(name: str) -> None:
    x = telling_input(name)
    found = {k: np.asarray(v) for k, v in build_decoy(name)(x).items()}
    lstm = {k: np.asarray(v) for k, v in build_lstm()(x).items()}
    assert max(relative_error(found[k], lstm[k]) for k in lstm) > 1000 * TOLERANCE


def test_what_the_decoys_resemble_is_one() -> None:
    lite = jfuse.convert(build_lstm())
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    check_invokes(lite, lambda seed: {"x": telling_input("early_exit", seed)})
