"""quick_jit computes what jit does, and leaves out options that XLA does not know."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jfuse.ir import compilation
from jfuse.ir.compilation import quick_jit


def test_results_are_those_of_jit() -> None:
    x = np.linspace(-3, 3, 64).reshape(8, 8)
    with jax.enable_x64(True):
        found, wanted = (compiled(lambda a: jax.numpy.tanh(a @ a) + a)(x) for compiled in (quick_jit, jax.jit))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_an_option_that_xla_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_QUICK", {"xla_no_such_option": 1, "xla_backend_optimization_level": 0})
    compilation._accepted.cache_clear()
    try:
        assert compilation._accepted() == (("xla_backend_optimization_level", 0),)
        assert quick_jit(lambda a: a + 1)(1) == 2
    finally:
        compilation._accepted.cache_clear()
