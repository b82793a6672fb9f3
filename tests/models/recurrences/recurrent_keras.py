"""Recurrent layers of Keras 3 and tf_keras with all their options, and the uses around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.models.keras_libraries import LIBRARIES, awake
from tests.models.recurrences.recurrent_rows import Draw, Row

UNITS = 4

Wire = Callable[..., Any]
"""(library, input, further inputs…) -> what the model gives"""


@dataclass(frozen=True)
class Layers:
    """A Keras model by what stands between its inputs and its outputs.

    batch, steps: None for an open one. extra: shapes of further inputs, without their batch. vocabulary: of the ids
    that "x" holds then.
    """

    wire: Wire
    batch: int | None = None
    steps: int | None = 6
    features: tuple[int, ...] = (5,)
    extra: tuple[tuple[int | None, ...], ...] = ()
    vocabulary: int = 0

    def build(self, library: str, seed: int = 0) -> Any:
        """The model with awake weights. Inputs: "x" f32[b,t,i] or i32[b,t], then "x1", "x2", …"""
        k = LIBRARIES[library]
        if self.vocabulary:
            x = k.Input(batch_shape=(self.batch, self.steps), dtype="int32", name="x")
        else:
            x = k.Input(batch_shape=(self.batch, self.steps, *self.features), name="x")
        extra = [k.Input(batch_shape=(self.batch, *s), name=f"x{i + 1}") for i, s in enumerate(self.extra)]
        return awake(k.Model([x, *extra] if extra else x, self.wire(k, x, *extra)), seed)


@dataclass(frozen=True)
class Case:
    """Rows of one Keras model, one for each library."""

    name: str
    layers: Layers
    fused: Mapping[str, int] = field(default_factory=dict)
    loops: int | None = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    draw: Draw | None = None
    libraries: Sequence[str] = ("keras", "tf_keras")
    tolerance: float | None = None
    operators: Mapping[str, int] = field(default_factory=dict)
    asleep: tuple[str, ...] = ()

    def rows(self, kind: str) -> list[Row]:
        """The rows, named by library and case."""
        return [
            Row(
                f"{library}-{self.name}",
                kind,
                partial(_build, self.layers, library),
                self.fused,
                self.operators,
                self.loops,
                self.options,
                self.draw,
                self.tolerance,
                self.asleep,
            )
            for library in self.libraries
        ]


def _build(layers: Layers, library: str, folder: Path) -> Any:
    return layers.build(library)


def layer(kind: str, units: int = UNITS, **options: Any) -> Wire:
    """One recurrent layer, its initial states from the further inputs."""

    def wire(k: Any, x: Any, *states: Any) -> Any:
        made = getattr(k.layers, kind)(units, **options)
        return made(x, initial_state=list(states) if len(states) > 1 else states[0]) if states else made(x)

    return wire


def masked(kind: str, units: int = UNITS, **options: Any) -> Wire:
    """A Masking layer before a recurrent one: steps of zeros do not count."""
    return lambda k, x: getattr(k.layers, kind)(units, **options)(k.layers.Masking(0.0)(x))


def embedded(kind: str, units: int = UNITS, *, mask_zero: bool = True, **options: Any) -> Wire:
    """An Embedding before a recurrent layer."""
    return lambda k, x: getattr(k.layers, kind)(units, **options)(k.layers.Embedding(20, 5, mask_zero=mask_zero)(x))


def bidirectional(kind: str, units: int = UNITS, *, merge: str | None = "concat", **options: Any) -> Wire:
    """A Bidirectional around a recurrent layer, its initial states from the further inputs."""

    def wire(k: Any, x: Any, *states: Any) -> Any:
        made = k.layers.Bidirectional(getattr(k.layers, kind)(units, **options), merge_mode=merge)
        return made(x, initial_state=list(states)) if states else made(x)

    return wire
