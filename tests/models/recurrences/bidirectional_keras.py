"""Bidirectional layers of Keras 3 and tf_keras, one builder for each way of wiring them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.models.keras_libraries import LIBRARIES, awake


@dataclass(frozen=True)
class KerasBidirectional:
    """One model: a stack of bidirectional layers. kind: LSTM or SimpleRNN; merge_mode: None gives both directions.

    own_backward: the backward layer is one of the user's, with other units (and merge_mode concat).
    """

    library: str = "keras"
    kind: str = "LSTM"
    merge_mode: str | None = "concat"
    units: int = 6
    batch: int | None = None
    steps: int | None = 7
    layers: int = 1
    return_sequences: bool = False
    return_state: bool = False
    initial_state: bool = False
    own_backward: int = 0

    def __str__(self) -> str:
        flags = [f for f in ("return_sequences", "return_state", "initial_state") if getattr(self, f)]
        sizes = [self.library, self.kind, str(self.merge_mode), f"b{self.batch or 'N'}", f"t{self.steps or 'N'}"]
        more = [f"x{self.layers}"] if self.layers > 1 else []
        return "-".join([*sizes, *more, *flags, *([f"backward{self.own_backward}"] if self.own_backward else [])])

    @property
    def op(self) -> str:
        """The op that each layer becomes."""
        return "bidirectional_sequence_lstm" if self.kind == "LSTM" else "bidirectional_sequence_rnn"

    def build(self, seed: int = 0) -> Any:
        """The model. Inputs: x f32[b,t,5], then what the initial states come from."""
        k = LIBRARIES[self.library]
        x = k.Input(batch_shape=(self.batch, self.steps, 5), name="x")
        inputs, states = [x], None
        if self.initial_state:
            context = k.Input(batch_shape=(self.batch, 4), name="context")
            inputs.append(context)
            count = 4 if self.kind == "LSTM" else 2
            states = [k.layers.Dense(self.units, activation="tanh")(context) for _ in range(count)]
        value = x
        for i in range(self.layers):
            last = i == self.layers - 1
            value = self._layer(k, last)(value, initial_state=states if i == 0 else None)
        outputs = list(value) if isinstance(value, list | tuple) else value
        return awake(k.Model(inputs if len(inputs) > 1 else x, outputs), seed)

    def _layer(self, k: Any, last: bool) -> Any:
        kind = getattr(k.layers, self.kind)
        options = {
            "return_sequences": self.return_sequences or not last,
            "return_state": self.return_state and last,
        }
        backward = kind(self.own_backward, go_backwards=True, **options) if self.own_backward else None
        merge_mode = self.merge_mode if last else "concat"
        return k.layers.Bidirectional(kind(self.units, **options), merge_mode=merge_mode, backward_layer=backward)
