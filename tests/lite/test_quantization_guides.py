"""The guides of post-training quantization, unchanged but for the import: as near to the float model as officially."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from jfuse import lite
from tests.lite import guides
from tests.slow import slow_but

KINDS = ("dynamic", "float16", "fallback", "integers", "int16x8")


@pytest.mark.parametrize("kind", slow_but(lambda kind: False, KINDS))
def test_a_quantized_file_is_as_good_as_the_official_one(kind: str) -> None:
    images = np.random.default_rng(1).random((8, 14, 14)).astype(np.float32)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it saves
        official = guides.quantization_guide(tf.lite, kind)
        floats = guides.evaluated(Interpreter(model_content=guides.quantization_guide(tf.lite, "none")), images)
    ours = guides.quantization_guide(lite, kind)
    details = [Interpreter(model_content=data) for data in (ours, official)]
    kinds = [
        [(d["dtype"], d["shape"].tolist()) for d in (*i.get_input_details(), *i.get_output_details())] for i in details
    ]
    assert kinds[0] == kinds[1]
    noise = [np.abs(guides.evaluated(i, images) - floats).max() for i in details]
    # Both round to as many steps; ties fall on either side, so that one step of the output's scale may lie between.
    scale = details[1].get_output_details()[0]["quantization"][0]
    assert noise[0] <= 1.5 * noise[1] + scale + 1e-6, noise
    np.testing.assert_allclose(
        guides.evaluated(lite.Interpreter(model_content=ours), images),
        guides.evaluated(Interpreter(model_content=ours), images),
        atol=scale + 1e-5,
    )
