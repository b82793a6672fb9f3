"""Models as people write them: TensorFlow's answers in LiteRT, call after call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

import jfuse
from tests.end_to_end.invokes import check_invokes
from tests.models import written
from tests.models.written import Written

# A model, and of the operators those that it is about.
MODELS: dict[str, tuple[Callable[[], Written], dict[str, int]]] = {
    "generation": (written.generation, {"while": 1}),
    "beam_search": (written.beam_search, {"unidirectional_sequence_lstm": 0}),
    "samples_of_each_row": (written.samples_of_each_row, {"unidirectional_sequence_lstm": 1, "while": 0}),
    "enlarged_to_another": (written.enlarged_to_another, {"transpose_conv": 1}),
    # A loop over the steps, and one in it over what the beams forget.
    "speech": (partial(written.speech, 1), {"unidirectional_sequence_lstm": 1, "while": 2}),
    "speech-three-texts": (partial(written.speech, 3), {"while": 2}),
    "transcripts": (written.transcripts, {"arg_max": 2, "while": 0}),
    "embedding-sum": (partial(written.sparse_features, "sum", weighed=False), {"topk_v2": 1}),
    "embedding-mean-weighed": (partial(written.sparse_features, "mean", weighed=True), {"topk_v2": 2}),
    "embedding-sqrtn": (partial(written.sparse_features, "sqrtn", weighed=False), {"topk_v2": 1}),
    "embedding-sqrtn-weighed": (partial(written.sparse_features, "sqrtn", weighed=True), {"topk_v2": 2}),
}


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str) -> None:
    build, operators = MODELS[name]
    source, draw = build()
    lite = jfuse.convert(source, verify=False)
    found = Counter(lite.report.operators)
    assert {op: found[op] for op in operators} == operators
    check_invokes(lite, draw)


def test_a_number_of_steps_that_an_open_size_may_take_below_0_stays_a_loop() -> None:
    (refusal,) = jfuse.convert(written.generation().source, verify=False).report.refused
    assert (refusal.condition, refusal.detail) == (
        "trip_count_unknown",
        "want at least 0 steps for any size, got - N + 8",
    )
