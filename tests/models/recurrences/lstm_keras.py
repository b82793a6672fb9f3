"""LSTM models of Keras 3 and tf_keras, one builder for each way of wiring them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.models.keras_libraries import LIBRARIES, awake


@dataclass(frozen=True)
class KerasLstm:
    """One model: a stack of LSTM layers and what its last layer gives back.

    initial_state: "" for zeros, "dense" for Dense layers on a second input, "encoder" for another LSTM's states.
    """

    library: str = "keras"
    units: int = 16
    batch: int | None = None
    steps: int | None = 7
    features: int = 5
    layers: int = 1
    return_sequences: bool = False
    return_state: bool = False
    go_backwards: bool = False
    initial_state: str = ""

    def __str__(self) -> str:
        flags = [f for f in ("return_sequences", "return_state", "go_backwards") if getattr(self, f)]
        sizes = [f"{self.library}", f"u{self.units}", f"b{self.batch or 'N'}", f"t{self.steps or 'N'}"]
        stacked = [f"x{self.layers}"] if self.layers > 1 else []
        return "-".join([*sizes, *stacked, *flags, *([self.initial_state] if self.initial_state else [])])

    @property
    def lstm_count(self) -> int:
        """How many LSTM layers there are."""
        return self.layers + (self.initial_state == "encoder")

    def build(self, seed: int = 0) -> Any:
        """The model. Inputs: x f32[b,t,i], then what the initial state comes from."""
        k = LIBRARIES[self.library]
        x = k.Input(batch_shape=(self.batch, self.steps, self.features), name="x")
        inputs, state = [x], None
        if self.initial_state:
            extra, state = self._initial_state(k)
            inputs.append(extra)
        value = x
        for i in range(self.layers):
            last = i == self.layers - 1
            layer = k.layers.LSTM(
                self.units,
                return_sequences=self.return_sequences or not last,
                return_state=self.return_state and last,
                go_backwards=self.go_backwards,
            )
            value = layer(value, initial_state=state if i == 0 else None)
        return awake(k.Model(inputs if len(inputs) > 1 else x, value), seed)

    def _initial_state(self, k: Any) -> tuple[Any, list[Any]]:
        if self.initial_state == "dense":
            context = k.Input(batch_shape=(self.batch, 6), name="context")
            return context, [k.layers.Dense(self.units, activation="tanh")(context) for _ in range(2)]
        source = k.Input(batch_shape=(self.batch, 4, 3), name="source")
        _, h, c = k.layers.LSTM(self.units, return_state=True)(source)
        return source, [h, c]
