"""Recurrent modules of PyTorch over a sequence in pieces: what they carry is kept by the file, or given and taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import jfuse

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tests.frontends.torch_modules.rows import f32  # noqa: E402

CUTS = [1, 4, 9]


class Stacked(nn.Module):
    """Two layers, whose states come in and go out."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(5, 6, num_layers=2, batch_first=True)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        """f32[b, t, 5], f32[2, b, 6] twice -> f32[b, t, 6] and the states"""
        y, (h, c) = self.layers(x, (h, c))
        return {"y": y, "h": h, "c": c}


class FromZeros(nn.Module):
    """An LSTM and a GRU, which start from zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTM(5, 6, batch_first=True), nn.GRU(6, 4, batch_first=True)

    def forward(self, x: Any) -> Any:
        """f32[b, t, 5] -> f32[b, t, 4]"""
        return self.gru(self.lstm(x)[0])[0]


def sequence() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(2, 12, 5)).astype(np.float32)


@pytest.mark.slow
def test_states_that_a_module_takes_and_returns_are_kept() -> None:
    torch.manual_seed(0)
    module = Stacked().eval()
    specs = [f32(2, None, 5), f32(2, 2, 6), f32(2, 2, 6)]
    result = jfuse.convert(module, specs, state={"h": ("h", "h"), "c": ("c", "c")})
    assert result.report.operators["unidirectional_sequence_lstm"] == 2
    assert result.signature().input_names == ("x",)
    with torch.no_grad():
        wanted = module(torch.from_numpy(sequence()), *torch.zeros(2, 2, 2, 6))["y"].numpy()
    run = Interpreter(model_content=result.to_bytes()).get_signature_runner()
    found = [run(x=piece)["y"] for piece in np.split(sequence(), CUTS, axis=1)]
    np.testing.assert_allclose(np.concatenate(found, 1), wanted, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["keep", "io"])
def test_what_layers_carry_is_kept_or_given(mode: Any) -> None:
    torch.manual_seed(0)
    module = FromZeros().eval()
    result = jfuse.convert(module, [f32(2 if mode == "keep" else None, None, 5)], state=mode)
    assert [k.name for k in result.report.kept] == ["lstm_h", "lstm_c", "gru_h"]
    with torch.no_grad():
        wanted = module(torch.from_numpy(sequence())).numpy()
    run, found = Interpreter(model_content=result.to_bytes()).get_signature_runner(), []
    states = {s.name: np.zeros((2, s.initial.type.shape[1]), np.float32) for s in result.signature().exposed}
    for piece in np.split(sequence(), CUTS, axis=1):
        results = run(x=piece, **states)
        found.append(results["output_0"])
        states = {name: results[name] for name in states}
    np.testing.assert_allclose(np.concatenate(found, 1), wanted, atol=1e-5)
