"""Branches, loops and calls, from TensorFlow to LiteRT."""

from __future__ import annotations

import pytest

import jfuse
from tests.end_to_end.invokes import check_invokes
from tests.models import control, lists
from tests.slow import every_other

ROWS = {**control.MODELS, **lists.MODELS}


@pytest.mark.parametrize("name", every_other(ROWS))
def test_model(name: str) -> None:
    row = ROWS[name]
    check_invokes(jfuse.convert(row.function, verify=name in list(ROWS)[::2]), row.draw)


def test_a_choice_of_two_is_one_branch() -> None:
    lite = jfuse.convert(control.nested_choice, verify=False)
    assert (lite.report.operators["if"], lite.report.operators["select_v2"]) == (3, 1)


def test_branches_of_unequal_size_are_not_one_program_of_xla() -> None:
    with pytest.raises(jfuse.JfuseError, match="the result size of if depends on data"):
        jfuse.load(control.unequal_branches).jax()
    with pytest.raises(jfuse.JfuseError, match="the result size of while depends on data"):
        jfuse.load(control.growing).jax()


def test_a_loop_whose_list_grows_is_no_recurrence() -> None:
    lite = jfuse.convert(lists.kept_rows, verify=False)
    assert "size_changes" in [refusal.condition for refusal in lite.report.refused]
