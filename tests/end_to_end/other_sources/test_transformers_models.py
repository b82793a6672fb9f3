"""Models of transformers, where it is installed: LiteRT answers as PyTorch does, at three batches and lengths."""

from __future__ import annotations

import numpy as np
import pytest

import jfuse
from jfuse.running.interpreter import LiteRt

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.models.torch_modules.transformers_models import MODELS, drawn  # noqa: E402

ERROR = 1e-5
MOVED = 10
"""Another input changes a result by so many times the error at least: what answers alike to all proves nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers_answer_alike(name: str) -> None:
    model = MODELS[name]()
    module = model.make()
    result = jfuse.convert(module, list(model.takes.values()), verify=False)  # compared here, once
    interpreter, signature = LiteRt(result.to_bytes(), delegates=True), result.signature()
    answers = []
    for seed, (batch, length) in enumerate([(2, 9), (2, 9), (3, 12), (1, 13)]):
        arguments = drawn(model, batch, length, seed)
        with torch.no_grad():
            wanted = module(*map(torch.from_numpy, arguments)).numpy()
        found = interpreter.run(signature.key, dict(zip(signature.input_names, arguments, strict=True)))
        scale = np.abs(wanted).max()
        assert found[signature.output_names[0]].shape == wanted.shape
        np.testing.assert_allclose(found[signature.output_names[0]] / scale, wanted / scale, rtol=0, atol=ERROR)
        answers.append(wanted)
    assert np.abs(answers[0] - answers[1]).max() > MOVED * ERROR * np.abs(answers[0]).max()
