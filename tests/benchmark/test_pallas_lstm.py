"""The LSTM of `bench.pallas_lstm` in Pallas's interpreter, against the formula in NumPy's float64; and for GPUs."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import export

from bench.pallas_lstm import lstm
from jfuse.base.measure import relative_error


def shapes(batch: int, units: int, features: int) -> list[tuple[int, ...]]:
    """Of three steps, weights, biases and states."""
    return [(batch, 3, features), (4, units, features), (4, units, units), (4, units), (batch, units), (batch, units)]


def by_formula(*operands: np.ndarray) -> np.ndarray:
    """The outputs of all steps in f64."""
    x, inputs, recurrent, biases, h, c = (a.astype(np.float64) for a in operands)
    found = []
    for step in np.swapaxes(x, 0, 1):
        i, f, g, o = (step @ w.T + h @ r.T + b for w, r, b in zip(inputs, recurrent, biases, strict=True))
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        found.append(h)
    return np.stack(found, 1)


@pytest.mark.parametrize(("batch", "units", "features"), [(16, 48, 5), (32, 64, 16)])
def test_the_steps_are_the_formula(batch: int, units: int, features: int) -> None:
    rng = np.random.default_rng(0)
    operands = [(0.3 * rng.standard_normal(s)).astype(np.float32) for s in shapes(batch, units, features)]
    found = np.asarray(lstm(*operands, interpret=True))
    assert relative_error(found, by_formula(*operands)) < 1e-6


def test_sizes_that_blocks_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="1 is no multiple of 16"):
        lstm(*(np.zeros(s, np.float32) for s in shapes(1, 16, 3)), interpret=True)


def test_it_lowers_to_triton() -> None:
    kernel = "__gpu$xla.gpu.triton"
    operands = [jax.ShapeDtypeStruct(s, np.float32) for s in shapes(64, 128, 64)]
    checks = [export.DisabledSafetyCheck.custom_call(kernel)]
    exported = export.export(jax.jit(lstm), platforms=["cuda"], disabled_checks=checks)(*operands)
    assert exported.mlir_module().count(f"custom_call @{kernel}") == 1
