"""Targets that call one signature: equal ones are one, and all that a source must change for them is one error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import LowerError
from jfuse.running.micro import has_micro

FIXED, OPEN = (tf.TensorSpec([n, 3], tf.float32, name="x") for n in (2, None))


def module(spec: Any, *, same: bool) -> tf.Module:
    """A module with two signatures: of one function, or of two."""
    found = tf.Module()
    found.serve = tf.function(lambda x: {"y": tf.tanh(x)}, input_signature=[spec])
    found.other = tf.function(lambda x: {"y": tf.tanh(x) if same else tf.exp(x)}, input_signature=[spec])
    return found


def saved(folder: Path, spec: Any, *, same: bool) -> Path:
    of = module(spec, same=same)
    tf.saved_model.save(of, str(folder), signatures={"serve": of.serve, "serving_default": of.other})
    return folder


@pytest.mark.parametrize("target", ["tflite-micro", "cmsis-nn", "ethos-u55"])
def test_equal_signatures_are_one(target: Any, tmp_path: Path) -> None:
    result = jfuse.convert(saved(tmp_path, OPEN, same=True), target=target, batch=2, verify=False)
    assert list(result.signatures) == ["serving_default"]
    assert "the signature 'serve' is the same as 'serving_default', which the file has" in result.report.notes


@pytest.mark.skipif(not has_micro(), reason="the wheel is for Python 3.11 alone")
def test_a_file_with_both_keys_is_run_and_measured(tmp_path: Path) -> None:
    result = jfuse.convert(saved(tmp_path, FIXED, same=True), verify=False)
    assert sorted(result.signatures) == ["serve", "serving_default"]
    assert jfuse.check(result, "tflite-micro").arena_bytes is not None


def test_other_targets_keep_both(tmp_path: Path) -> None:
    result = jfuse.convert(saved(tmp_path, FIXED, same=True), target="litert-gpu", verify=False)
    assert sorted(result.signatures) == ["serve", "serving_default"]


def test_one_error_has_both_remedies(tmp_path: Path) -> None:
    with pytest.raises(LowerError) as error:
        jfuse.convert(saved(tmp_path, OPEN, same=False), target="tflite-micro")
    text = str(error.value)
    assert "runs files with one signature, and plans its memory before the first call" in text
    assert "several signatures: serve, serving_default" in text
    assert text.count("jfuse.Inputs(signatures=['serve'])") == 1
    assert text.count("batch=1") == 1


def test_the_batch_is_proposed_once_for_equal_signatures(tmp_path: Path) -> None:
    with pytest.raises(LowerError, match="plans its memory") as error:
        jfuse.convert(saved(tmp_path, OPEN, same=True), target="tflite-micro")
    text = str(error.value)
    assert text.count("batch=1") == text.count("x: f32[B,3]") == 1
    assert "signatures=" not in text
