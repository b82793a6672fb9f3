"""Writes the files beside it: recurrences of PyTorch as litert-torch 0.10.0 writes them, for `tests/api`.

python make.py    # in an environment with litert-torch; the tests need none
"""

from pathlib import Path
from typing import Any

import litert_torch
import torch

STEPS, FEATURES, UNITS = 6, 4, 8


class Model(torch.nn.Module):
    """A recurrence over sequences, and a linear layer."""

    def __init__(self, rnn: Any) -> None:
        super().__init__()
        self.rnn = rnn
        self.linear = torch.nn.Linear(rnn.hidden_size * (2 if rnn.bidirectional else 1), 3)

    def forward(self, x: Any) -> Any:
        """x: f32[1,STEPS,FEATURES] -> f32[1,STEPS,3]."""
        return self.linear(self.rnn(x)[0])


MODELS: dict[str, Any] = {
    "lstm": lambda: torch.nn.LSTM(FEATURES, UNITS, batch_first=True),
    "bilstm": lambda: torch.nn.LSTM(FEATURES, UNITS, batch_first=True, bidirectional=True),
    "gru": lambda: torch.nn.GRU(FEATURES, UNITS, batch_first=True),
    "rnn": lambda: torch.nn.RNN(FEATURES, UNITS, batch_first=True),
}

for name, make in MODELS.items():
    torch.manual_seed(0)
    converted = litert_torch.convert(Model(make()).eval(), (torch.randn(1, STEPS, FEATURES),))
    converted.export(str(Path(__file__).with_name(f"{name}.tflite")))
