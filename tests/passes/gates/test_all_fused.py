"""strict=True: marked functions that do not fuse are errors, loops that nobody marked are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from typer.testing import CliRunner

import jfuse
from jfuse import ops
from jfuse.base.errors import LowerError
from jfuse.cli.app import app
from jfuse.lowering.rules import Rule

SPEC = tf.TensorSpec([None, 3], tf.float32, name="x")


@tf.function(experimental_implements="acme.soft")
def soft(x: Any) -> Any:
    return tf.exp(x) * 2.0


def model(function: Any = soft) -> Any:
    return tf.function(lambda x: function(x) + 1.0, input_signature=[SPEC], autograph=False)


@jfuse.fuses("acme.soft", default=False)
def fuse_soft(x: Any) -> Any:
    """As the body has it."""
    return ops.mul(np.float32(2), ops.exp(x))


@jfuse.fuses("acme.soft", default=False)
def fuse_soft_of_matrices(x: Any) -> Any:
    """Refuses."""
    jfuse.need(False, "square_matrix", want="f32[n,n]", got="f32[B,3]")


@jfuse.fuses("acme.soft", default=False)
def fuse_soft_wrongly(x: Any) -> Any:
    """Off by one."""
    return ops.add(fuse_soft(x), np.float32(1))


def test_what_fuses_passes() -> None:
    lite = jfuse.convert(model(), rules=[fuse_soft], forms=jfuse.Forms(strict=True))
    assert [f.composite for f in lite.report.fused] == ["acme.soft"]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ([], r"acme.soft at \S+ \(\w+\): no rule has that name"),
        (
            [fuse_soft_of_matrices],
            r"acme.soft at \S+ \(\w+\): fuse_soft_of_matrices refuses, square_matrix: want f32\[n,n\]",
        ),
        ([fuse_soft_wrongly], "fuse_soft_wrongly refuses, not_equal"),
    ],
)
def test_function_rule_and_reason_are_named(rules: list[Rule], reason: str) -> None:
    with pytest.raises(LowerError, match=f"a marked function does not fuse(.|\n)*{reason}"):
        jfuse.convert(model(), rules=rules, forms=jfuse.Forms(strict=True))
    assert jfuse.convert(model(), rules=rules).report.refused  # without it the reason is in the report alone


def test_loops_that_nobody_marked_may_stay_loops() -> None:
    def gru_like(x: Any) -> Any:
        return tf.scan(lambda h, row: tf.tanh(h * tf.sigmoid(row)) + row, x)

    lite = jfuse.convert(
        tf.function(gru_like, input_signature=[tf.TensorSpec([5, 3])], autograph=False), forms=jfuse.Forms(strict=True)
    )
    assert lite.report.refused


def test_the_option_of_the_command_line(tmp_path: Path) -> None:
    module = tf.Module()
    module.call = model()
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures={"serving_default": module.call})
    words = ["convert", str(tmp_path / "saved"), "-o", str(tmp_path / "m.tflite"), "--strict"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 1
    assert "acme.soft" in found.stderr
    assert not (tmp_path / "m.tflite").exists()
    assert CliRunner().invoke(app, words[:-1]).exit_code == 0
