"""What `jfuse explain` tells of a conversion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jfuse.records.conversion import Fusion, KeptState, LoopForm, Refusal, Report
from jfuse.records.remedies import remedy_of
from jfuse.reports.explain import explain_lines

FUSED = Fusion(
    "jfuse.lstm",
    "fuse_lstm",
    "model/lstm/while (While)",
    ("UNIDIRECTIONAL_SEQUENCE_LSTM",),
    131,
    4.4e-16,
    recovered=True,
    cell="LSTM of 16 units, 8 inputs, 12 steps",
)


def test_a_fusion_tells_what_it_is_how_it_was_found_and_proven() -> None:
    assert explain_lines(Report(fused=[FUSED])) == [
        "LSTM of 16 units, 8 inputs, 12 steps at model/lstm/while (While)",
        "  found      recovered without a mark; the rule is fuse_lstm",
        "  tested     on 131 samples in float64, largest error 4.4e-16",
        "  no proof   not tried",
        "  becomes    UNIDIRECTIONAL_SEQUENCE_LSTM",
        "",
    ]


def test_a_proof_tells_for_what_it_holds_and_under_which_conditions() -> None:
    lines = explain_lines(Report(fused=[replace(FUSED, stopped="", conditions=("T >= 1",))]))
    assert lines[2:5] == [
        "  proven     for all inputs, states, lengths and batches, in real arithmetic",
        "  if         T >= 1",
        "  measured   on 131 samples in float64, largest error 4.4e-16",
    ]


def test_a_refusal_tells_why_what_to_do_and_what_it_became() -> None:
    place = "model/lstm/while (While)"
    refusal = Refusal("jfuse.lstm", "fuse_lstm", "padding_unknown", place, "want padding, got any mask")
    form = LoopForm(place, "12 steps of 15 operators", "unrolled")
    lines = explain_lines(Report(refused=[refusal], loops=[form]))
    assert lines[:3] == [
        "jfuse.lstm at model/lstm/while (While)",
        "  not fused  padding_unknown (fuse_lstm)",
        "  because    want padding, got any mask",
    ]
    assert lines[3].startswith("  try        ")
    assert 'padding="right"' in lines[3]
    assert lines[4] == "  becomes    unrolled (12 steps of 15 operators)"


def test_times_are_told_of_the_chosen_form_and_of_three_others_in_words() -> None:
    forms = {"unrolled": 10.0, "x4": 12.25, "x2": 13.0, "x2in24": 14.0, "x3": 20.0}
    loop = LoopForm("net/while (While)", "12 steps", "WHILE, 2 steps a turn", chosen_microseconds=13.0, forms=forms)
    assert explain_lines(Report(loops=[loop]))[2] == (
        "  expected   about 13 us a call; 10 us as unrolled; 12.2 us as WHILE, 4 steps a turn; "
        "14 us as WHILE, 2 steps a turn, in blocks of 24 steps"
    )


def test_loops_that_nobody_took_for_a_recurrence_are_told_too() -> None:
    assert explain_lines(Report(loops=[LoopForm("model/while (While)", "3 steps", "a WHILE")])) == [
        "loop at model/while (While)",
        "  becomes    a WHILE (3 steps)",
        "",
    ]


def test_assumptions_states_and_notes_follow() -> None:
    report = Report(assumptions=["T >= 1"], kept=[KeptState("lstm_h", "f32[1,4]", "a state tensor")], notes=["a note"])
    assert explain_lines(report) == [
        "assumed: T >= 1",
        "kept between calls: lstm_h: f32[1,4] in a state tensor",
        "note: a note",
    ]


def test_a_model_without_recurrences() -> None:
    assert explain_lines(Report()) == ["no recurrences, no composites: every operation is converted by itself"]


@pytest.mark.parametrize("condition", ["not_equal", "early_exit", "unexplained_switch"])
def test_remedies_come_from_the_page_on_refusals(condition: str) -> None:
    assert remedy_of(condition)


def test_names_of_users_have_no_remedy() -> None:
    assert remedy_of("some_condition_of_a_user") == ""
