"""Biases of an LSTM's gates: what weights in few bits add to them, where the inputs have a mean, is taken off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import jfuse
from jfuse import Recipe
from jfuse.ir.graph import Const
from jfuse.model import Model
from jfuse.running.interpreter import LiteRt
from tests.passes.quantize.models import eqns_of

STEPS, FEATURES = 20, 24


def _energies(count: int, seed: int) -> np.ndarray:
    """Logarithms, far below 0."""
    drawn = np.random.default_rng(seed).standard_normal((count, STEPS, FEATURES))
    return (drawn - 6).astype(np.float32)


@pytest.fixture(scope="module")
def source() -> Any:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((STEPS, FEATURES), batch_size=1, name="x")
    return keras.Model(inputs, layers.LSTM(48, return_sequences=True)(inputs))


def _snr_db(source: Any, recipe: Recipe) -> float:
    calls = _energies(16, 1)
    made = jfuse.convert(source, quantize=recipe, calibration=_energies(32, 0), verify=False)
    run, (name,) = LiteRt(made.to_bytes()), made.signature().output_names
    found = np.concatenate([run.run("serving_default", {"x": x[None]})[name] for x in calls])
    wanted = np.asarray(source(calls))
    return float(10 * np.log10(np.square(wanted).sum() / np.square(found - wanted).sum()))


@pytest.mark.parametrize(("recipe", "better_by_db"), [("int8", 3), ("dynamic", 0.5), ("int8_weights", 3)])
def test_biases_make_up_for_weights(source: Any, recipe: str, better_by_db: float) -> None:
    corrected = Recipe.named(recipe)
    plain = replace(corrected, rules=tuple(replace(rule, bias_correction=False) for rule in corrected.rules))
    assert _snr_db(source, corrected) > _snr_db(source, plain) + better_by_db


def test_the_bias_by_the_formula(source: Any) -> None:
    """Of one gate: the bias less the errors of the weights times the mean of the inputs over samples and steps."""
    samples = _energies(8, 2)
    made = jfuse.convert(
        source, quantize="dynamic", calibration=samples, verify=False, forms=jfuse.Forms(prefer="fused")
    )
    floats = made.unquantized
    assert floats is not None
    ours, theirs = (_constants(model) for model in (made, floats))
    weights, bias = 2, 13  # of the forget gate
    scale = ours[weights].quantization
    assert scale is not None
    error = (ours[weights].array * np.float64(scale.scale[0]) - theirs[weights].array) @ samples.mean(
        (0, 1), np.float64
    )
    assert ours[bias].array == pytest.approx(theirs[bias].array - error, abs=1e-5)
    assert np.abs(error).max() > 1e-3


def _constants(model: Model) -> dict[int, Const]:
    """The constant operands of its LSTM by position."""
    (lstm,) = (e for e in eqns_of(model.program) if "lstm" in e.op.name)
    return {i: a for i, a in enumerate(lstm.inputs) if isinstance(a, Const)}
