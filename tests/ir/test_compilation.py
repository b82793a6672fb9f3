"""quick_jit computes what jit does, and leaves out options that XLA does not know."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jfuse.ir import compilation
from jfuse.ir.compilation import known_options, quick_jit

_KNOWN: dict[str, bool | int] = {"xla_backend_optimization_level": 0}


def test_results_are_those_of_jit() -> None:
    x = np.linspace(-3, 3, 64).reshape(8, 8)
    with jax.enable_x64(True):
        found, wanted = (compiled(lambda a: jax.numpy.tanh(a @ a) + a)(x) for compiled in (quick_jit, jax.jit))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_an_option_that_xla_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_QUICK", {"xla_no_such_option": 1, **_KNOWN})
    compilation._accepted.cache_clear()
    try:
        assert compilation._accepted() == tuple(_KNOWN.items())
        assert quick_jit(lambda a: a + 1)(1) == 2
    finally:
        compilation._accepted.cache_clear()


def test_several_options_are_left_out_one_by_one() -> None:
    assert known_options({"xla_no_such_option": True, **_KNOWN, "xla_nor_this_one": 1}) == _KNOWN
    assert known_options({"xla_cpu_use_fusion_emitters": 7, **_KNOWN}) == _KNOWN  # a value that it does not take
    assert known_options({}) == {}
