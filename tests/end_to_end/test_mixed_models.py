"""Models as people bring them, Keras 3 and tf_keras, with a dynamic batch: TensorFlow's answers in LiteRT."""

from __future__ import annotations

import pytest

import jfuse
from tests.end_to_end.invokes import check_invokes
from tests.models.keras_libraries import LIBRARIES
from tests.models.mixed import MODELS
from tests.slow import keras_3, slow_but

# What TFLiteConverter of TensorFlow 2.21 makes of the Keras 3 models at batch 1; two more for each transposed
# convolution, which TRANSPOSE_CONV cannot do for an open batch.
OFFICIAL = {
    "mlp": 4,
    "autoencoder": 6 + 4,
    "wavenet": 77,
    "tcn": 70,
    "attention_over_lstm": 39,
    "siamese": 10,
    "branches": 14,
    "nested": 14,
    "squeeze_and_excite": 12,
    "u_net": 12 + 2,
}


@pytest.mark.parametrize("library", slow_but(keras_3, LIBRARIES))
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, library: str) -> None:
    lite = jfuse.convert(MODELS[name](library), verify=False)
    if name not in ("attention_over_lstm", "wavenet"):  # initial states of any batch, open steps
        assert lite.report.operators.get("shape", 0) == 0
    assert sum(lite.report.operators.values()) <= OFFICIAL[name]
    check_invokes(lite)


def test_convolutions_over_sequences_leave_no_renames_between_them() -> None:
    counts = jfuse.convert(MODELS["wavenet"]("keras"), verify=False).report.operators
    assert counts["conv_2d"] == 13
    assert counts.get("expand_dims", 0) + counts.get("reshape", 0) == 1
    assert counts.get("squeeze", 0) == 1
