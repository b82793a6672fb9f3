"""torchvision's own models, where it is installed: LiteRT answers as PyTorch does on three calls."""

from __future__ import annotations

import numpy as np
import pytest

import jfuse
from jfuse.running.interpreter import LiteRt

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")

from tests.models.torch_modules.torchvision_models import MODELS, awake  # noqa: E402

MOVED = 10
"""Another input changes a result by so many times the tolerance at least: what answers alike to all proves nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_of_torchvision_answer_alike(name: str) -> None:
    model = MODELS[name]
    module = awake(model)
    result = jfuse.convert(module, [torch.zeros(model.shape)], verify=False)  # compared here, once
    assert result.report.operators.get("transpose", 0) <= model.transposes
    interpreter, signature = LiteRt(result.to_bytes(), delegates=True), result.signature()
    generator, before = torch.Generator().manual_seed(2), None
    for _ in range(3):
        x = torch.rand(model.shape, generator=generator)
        with torch.no_grad():
            wanted = [leaf.numpy() for leaf in torch.utils._pytree.tree_leaves(module(x))]
        found = interpreter.run(signature.key, {signature.input_names[0]: x.numpy()})
        for output, value in zip(signature.output_names, wanted, strict=True):
            scale = np.abs(value).max() or 1
            assert found[output].shape == value.shape
            np.testing.assert_allclose(found[output] / scale, value / scale, rtol=0, atol=model.error)
        if before is not None and before.shape == wanted[0].shape:  # other boxes may be fewer
            assert np.abs(wanted[0] - before).max() > MOVED * model.error * np.abs(before).max()
        before = wanted[0]
