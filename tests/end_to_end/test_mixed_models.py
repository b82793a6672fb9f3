"""Models as people bring them, Keras 3 and tf_keras, with a dynamic batch: TensorFlow's answers in LiteRT."""

from __future__ import annotations

import pytest

import jfuse
from tests.end_to_end.invokes import check_invokes
from tests.models.keras_libraries import LIBRARIES
from tests.models.mixed import MODELS


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, library: str) -> None:
    lite = jfuse.convert(MODELS[name](library), verify=False)
    if name not in ("attention_over_lstm", "wavenet"):  # initial states of any batch, open steps
        assert lite.report.operators.get("shape", 0) == 0
    check_invokes(lite)
