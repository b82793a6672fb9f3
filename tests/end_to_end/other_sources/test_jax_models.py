"""Models of jax's libraries convert and answer as jax does on three calls in LiteRT; some are verified, too."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import jfuse
from tests.frontends.jax_functions.test_primitives import drawn

for name in ("flax", "equinox", "haiku"):
    pytest.importorskip(name)

from tests.models.jax_models import FEW, MORE, JaxModel  # noqa: E402


def check(model: JaxModel, *, verify: bool) -> None:
    result = jfuse.convert(model.function, jfuse.Inputs(model.specs, params=model.params), verify=verify)
    assert {d.pair for d in result.report.differences} == ({"jax/xla", "jax/litert"} if verify else set())
    assert tuple(sorted(f.composite for f in result.report.fused)) == model.fuses
    # Modules of nnx draw numbers of their own, which no trace allows.
    function = model.function if model.params is None else jax.jit(lambda *args: model.function(model.params, *args))
    runner = Interpreter(model_content=result.to_bytes()).get_signature_runner()
    rng = np.random.default_rng(2)
    for size in (2, 2, 3):
        args = [drawn(spec, size, rng) for spec in model.specs]
        wanted = jax.tree_util.tree_leaves(function(*args))
        found = runner(**dict(zip(result.signature().input_names, args, strict=True)))
        for output, value in zip(result.signature().output_names, wanted, strict=True):
            scale = np.abs(value).max() or 1
            np.testing.assert_allclose(found[output] / scale, np.asarray(value) / scale, atol=1e-5)


@pytest.mark.parametrize("name", FEW)
def test_models_of_jax_convert(name: str) -> None:
    check(FEW[name](), verify=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_more_models_of_jax_convert(name: str) -> None:
    check(MORE[name](), verify=False)
