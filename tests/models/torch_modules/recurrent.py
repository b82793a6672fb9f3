"""Recurrent models of PyTorch, and those over sounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.frontends.torch_modules.rows import f32, i64


class Layer(nn.Module):
    """The outputs of a recurrent layer."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        """f32[b, t, i] or f32[t, b, i] -> f32[b, t, o] or f32[t, b, o]"""
        return self.layer(x)[0]


class Last(nn.Module):
    """A classifier of the states after the last step."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        """f32[b, t, 5] -> f32[b, 3]"""
        states = self.layer(x)[1]
        return self.head((states[0] if isinstance(states, tuple) else states)[-1])


class WithStates(nn.Module):
    """A layer from states that are given, which are returned."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any, *states: Any) -> Any:
        """The outputs and states by name."""
        y, after = self.layer(x, states if len(states) > 1 else states[0])
        return {"y": y, "states": after}


class Language(nn.Module):
    """Embedding, two layers, the embedding again."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layer = nn.LSTM(8, 8, 2, dropout=0.5, batch_first=True)

    def forward(self, ids: Any) -> Any:
        """i64[b, t] -> f32[b, t, 11]"""
        return F.linear(self.layer(self.embed(ids))[0], self.embed.weight)


class Cells(nn.Module):
    """A cell in a loop of Python."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(5, 6)

    def forward(self, x: Any) -> Any:
        """f32[b, 7, 5] -> f32[b, 7, 6]"""
        h = c = x.new_zeros(x.shape[0], 6)
        found = []
        for step in range(7):
            h, c = self.cell(x[:, step], (h, c))
            found.append(h)
        return torch.stack(found, 1)


class Temporal(nn.Module):
    """A block of a temporal convolutional network: causal, with gaps, gated."""

    def __init__(self) -> None:
        super().__init__()
        self.filters, self.gates = nn.Conv1d(4, 8, 3, dilation=2), nn.Conv1d(4, 8, 3, dilation=2)
        self.across = nn.Conv1d(4, 8, 1)

    def forward(self, x: Any) -> Any:
        """f32[b, 4, t] -> f32[b, 8, t]"""
        late = F.pad(x, (4, 0))
        return F.relu(torch.tanh(self.filters(late)) * torch.sigmoid(self.gates(late)) + self.across(x))


class FrontEnd(nn.Module):
    """A spectrogram by a Fourier transform, through filters, its logarithm."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.register_buffer("filters", torch.rand(17, 6))

    def forward(self, x: Any) -> Any:
        """f32[b, 128] -> f32[b, 6, frames]"""
        power = torch.stft(x, 32, 16, window=self.window, return_complex=True).abs() ** 2
        return torch.log(power.mT @ self.filters + 1.0).mT


class Speech(nn.Module):
    """Convolutions over a spectrogram, then a layer in both directions, then classes for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, (2, 1), 1), nn.Hardtanh(0, 20, inplace=True))
        self.layer = nn.LSTM(16, 6, batch_first=True, bidirectional=True)
        self.head = nn.Linear(12, 5)

    def forward(self, x: Any) -> Any:
        """f32[b, 8, t] -> f32[b, t, 5]"""
        x = self.stem(x[:, None]).flatten(1, 2).transpose(1, 2)
        return F.log_softmax(self.head(self.layer(x)[0]), -1)


class TextInImage(nn.Module):
    """CRNN: convolutions over a line of text, two layers in both directions along its width, classes for each step."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2, 2))
        low = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 1), (2, 1)))
        self.body = nn.Sequential(norm, low, nn.MaxPool2d((2, 2), (2, 1), (0, 1)), nn.Conv2d(8, 8, 2))
        self.layer, self.head = nn.LSTM(8, 6, 2, bidirectional=True), nn.Linear(12, 7)

    def forward(self, x: Any) -> Any:
        """f32[b, 1, 16, w] -> f32[w / 2, b, 7]"""
        x = self.body(x).squeeze(2).permute(2, 0, 1)
        return F.log_softmax(self.head(self.layer(x)[0]), -1)


LSTM, RNN = ("jfuse.lstm",), ("jfuse.rnn",)
X = f32(None, 7, 5)
MODELS: dict[str, tuple[Callable[[], Any], tuple[Any, ...], tuple[str, ...]]] = {
    "lstm-time-first": (lambda: Layer(nn.LSTM(5, 6)), (f32(None, None, 5),), LSTM),
    "lstm-stacked": (lambda: Layer(nn.LSTM(5, 6, 2, batch_first=True)), (X,), LSTM * 2),
    "lstm-both-ways": (lambda: Layer(nn.LSTM(5, 6, batch_first=True, bidirectional=True)), (X,), LSTM * 2),
    "lstm-projected": (lambda: Layer(nn.LSTM(5, 6, proj_size=4, batch_first=True)), (X,), LSTM),
    "lstm-without-bias": (lambda: Layer(nn.LSTM(5, 6, bias=False, batch_first=True)), (X,), LSTM),
    "lstm-last": (lambda: Last(nn.LSTM(5, 6, batch_first=True)), (X,), LSTM),
    "lstm-states": (
        lambda: WithStates(nn.LSTM(5, 6, batch_first=True)),
        (f32(2, 7, 5), f32(1, 2, 6), f32(1, 2, 6)),
        LSTM,
    ),
    "lstm-one-sequence": (lambda: Layer(nn.LSTM(5, 6)), (f32(7, 5),), LSTM),
    "language": (Language, (i64(None, 6),), LSTM * 2),
    "rnn": (lambda: Layer(nn.RNN(5, 6, batch_first=True)), (X,), RNN),
    "rnn-relu-both-ways": (
        lambda: Layer(nn.RNN(5, 6, nonlinearity="relu", bidirectional=True)),
        (f32(7, 2, 5),),
        RNN * 2,
    ),
    "gru": (lambda: Layer(nn.GRU(5, 6, batch_first=True)), (f32(None, None, 5),), ()),
    "gru-states": (lambda: WithStates(nn.GRU(5, 6, batch_first=True)), (f32(2, 7, 5), f32(1, 2, 6)), ()),
    "gru-both-ways": (lambda: Last(nn.GRU(5, 6, 2, batch_first=True, bidirectional=True)), (X,), ()),
    "cells": (Cells, (X,), LSTM),
    "temporal": (Temporal, (f32(None, 4, None),), ()),
    "front-end": (FrontEnd, (f32(None, 128),), ()),
    "speech": (Speech, (f32(2, 8, None),), LSTM * 2),
}
