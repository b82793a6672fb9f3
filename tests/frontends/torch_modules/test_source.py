"""Modules of PyTorch as sources: what they may be given, and what is said where that does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jfuse

torch = pytest.importorskip("torch")


def test_a_module_becomes_a_file_that_is_compared_with_it() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
    result = jfuse.convert(module, [Spec(None, 5)])
    assert result.report.operators == {"fully_connected": 2}
    assert [(d.pair, d.error < 1e-5) for d in result.report.differences] == [
        ("pytorch/xla", True),
        ("pytorch/litert", True),
    ]
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    np.testing.assert_allclose(result(x), module(torch.from_numpy(x)).detach().numpy(), atol=1e-6)


class Spec:
    def __init__(self, *shape: Any, dtype: Any = np.float32) -> None:
        self.shape, self.dtype = shape, dtype
