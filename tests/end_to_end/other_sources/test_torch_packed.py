"""Packed sequences of PyTorch: their lengths are an input of the file, which answers as the module does."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import jfuse

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence  # noqa: E402

from tests.frontends.torch_modules.rows import f32, i64  # noqa: E402

STEPS = 7


class Packed(nn.Module):
    """A layer between packing and padding.   between: of the packed data, before the layer."""

    def __init__(self, layer: Any, *, is_sorted: bool = False, padding: float = 0.0, between: Any = None) -> None:
        super().__init__()
        self.layer, self.is_sorted, self.padding, self.between = layer, is_sorted, padding, between

    def forward(self, x: Any, lengths: Any) -> Any:
        """f32[b, t, 5], i64[b] -> the outputs f32[b, t, o], the states after the last steps, the lengths"""
        first = self.layer.batch_first
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=first, enforce_sorted=self.is_sorted)
        if self.between is not None:
            packed = PackedSequence(self.between(packed.data), packed.batch_sizes, *packed[2:])
        packed, states = self.layer(packed)
        y, counts = pad_packed_sequence(packed, first, self.padding)
        return {"y": y, "states": states, "counts": counts}


class LastState(nn.Module):
    """A classifier of the state after the last step that counts."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.LSTM(5, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Any, lengths: Any) -> Any:
        """f32[b, t, 5], i64[b] -> f32[b, 3]"""
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.layer(packed)[1][0][-1])


LSTM, RNN = ("jfuse.lstm",), ("jfuse.rnn",)
MODELS: dict[str, tuple[Any, tuple[str, ...], bool]] = {
    "lstm": (lambda: Packed(nn.LSTM(5, 6, batch_first=True)), LSTM, False),
    "lstm-sorted": (lambda: Packed(nn.LSTM(5, 6, batch_first=True), is_sorted=True), LSTM, True),
    "lstm-both-ways-stacked": (
        lambda: Packed(nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True), padding=-1.0),
        LSTM * 4,
        False,
    ),
    "lstm-last-state": (LastState, LSTM, False),
    "lstm-after-dense": (lambda: Packed(nn.LSTM(4, 6, batch_first=True), between=nn.Linear(5, 4)), LSTM, False),
    "gru": (lambda: Packed(nn.GRU(5, 6, batch_first=True)), (), False),
    "rnn-both-ways-time-first": (lambda: Packed(nn.RNN(5, 6, bidirectional=True)), RNN * 2, False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_packed_sequences_become_lengths(name: str) -> None:
    make, fuses, is_sorted = MODELS[name]
    torch.manual_seed(0)
    module = make().eval()
    time_first = not module.layer.batch_first
    (batch,) = jax.export.symbolic_shape("batch")
    shape = (STEPS, batch, 5) if time_first else (batch, STEPS, 5)
    result = jfuse.convert(module, [f32(*shape), i64(batch)])
    assert tuple(sorted(f.composite for f in result.report.fused)) == fuses
    assert any("padded again" in note for note in result.report.notes)
    run = Interpreter(model_content=result.to_bytes()).get_signature_runner()
    rng = np.random.default_rng(1)
    for lengths in ([3, 7, 1], [2, 5], [7, 7, 4, 1]):
        lengths = sorted(lengths, reverse=True) if is_sorted else lengths
        x = rng.normal(size=(len(lengths), STEPS, 5)).astype(np.float32)
        x = x.swapaxes(0, 1) if time_first else x
        with torch.no_grad():
            wanted = module(torch.from_numpy(x), torch.tensor(lengths))
        wanted = wanted if isinstance(wanted, dict) else {"output_0": wanted}
        found = run(x=x, lengths=np.array(lengths))
        names = list(result.signature().output_names)
        for output, leaf in zip(names, torch.utils._pytree.tree_leaves(wanted), strict=True):
            value = leaf.numpy()
            if output == "y":  # the file has as many steps as were packed
                axis = 0 if time_first else 1
                rows = [(0, STEPS - value.shape[axis]) if i == axis else (0, 0) for i in range(3)]
                value = np.pad(value, rows, constant_values=module.padding)
            np.testing.assert_allclose(found[output], value, atol=1e-5)
