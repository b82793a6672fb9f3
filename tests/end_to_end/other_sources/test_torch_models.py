"""Models of PyTorch convert, are verified against PyTorch itself, and answer alike on three calls in LiteRT."""

from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import jfuse

torch = pytest.importorskip("torch")

from tests.frontends.torch_modules.test_operators import drawn  # noqa: E402
from tests.models.torch_modules.table import FEW, MORE, TorchModel  # noqa: E402


def check(model: TorchModel) -> None:
    module = model.make()
    result = jfuse.convert(module, model.specs)
    assert {d.pair for d in result.report.differences} == {"pytorch/xla", "pytorch/litert"}
    assert tuple(sorted(f.composite for f in result.report.fused)) == model.fuses
    if model.transposes is not None:
        assert result.report.operators.get("transpose", 0) <= model.transposes
    runner = Interpreter(model_content=result.to_bytes()).get_signature_runner()
    rng = np.random.default_rng(2)
    tree = torch.utils._pytree
    specs, structure = tree.tree_flatten(model.specs)
    for size in (6, 6, 9):
        leaves = [drawn(spec, size, rng) for spec in specs]
        with torch.no_grad():
            results = module(*tree.tree_unflatten([torch.from_numpy(leaf) for leaf in leaves], structure))
        wanted = [leaf.numpy() for leaf in tree.tree_leaves(results)]
        found = runner(**dict(zip(result.signature().input_names, leaves, strict=True)))
        for output, value in zip(result.signature().output_names, wanted, strict=True):
            scale = np.abs(value).max() or 1
            np.testing.assert_allclose(found[output] / scale, value / scale, atol=1e-5)


@pytest.mark.parametrize("name", FEW)
def test_models_of_pytorch_convert(name: str) -> None:
    check(FEW[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_more_models_of_pytorch_convert(name: str) -> None:
    check(MORE[name])
