"""Runs a quantized file in floats: as it is, with its activations rounded, and with its weights moved by half steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jfuse.ir.evaluate import with_constants
from jfuse.ir.graph import Const, Signature
from jfuse.ir.walk import retype
from jfuse.quantization.real_graph import Activations, RealSignature, Weight, real_signature
from jfuse.running.over_samples import OverSamples, samples_at_once
from jfuse.running.partition import hosted
from jfuse.running.runner import Runner, untraceable
from jfuse.verification.subject import Arrays


@dataclass(frozen=True)
class RealRuns:
    """One signature of a quantized file in floats, on samples along a first axis of each input."""

    signature: Signature

    @cached_property
    def of_file(self) -> RealSignature:
        """The signature that is run: all that was quantized is f32."""
        return real_signature(self.signature)

    @property
    def real(self) -> Signature:
        """The signature alone."""
        return self.of_file.signature

    def run(self, inputs: Arrays, activations: Activations, seed: int | None = None) -> dict[str, np.ndarray]:
        """The outputs by name.   inputs: f[samples, calls, ...] by name, each sample a row of calls

        seed: for moving each weight by up to half a step to either side; None leaves them as they are.
        """
        weights = self.of_file.weights
        arrays = [w.array if seed is None else nudged(w, seed, i) for i, w in enumerate(weights)]
        arrays.insert(0, np.array([activations.value], np.float32))
        rows = [np.asarray(inputs[name]) for name in self.real.input_names]
        found = self._one_by_one(arrays, rows) if self._program is None else self._together(arrays, rows)
        return dict(zip(self.real.output_names, found, strict=False))

    @property
    def _arguments(self) -> list[np.ndarray]:
        """The constants that a run replaces."""
        return [self.of_file.chosen, *(w.array for w in self.of_file.weights)]

    @cached_property
    def _program(self) -> OverSamples | None:
        graph = hosted(self.real.graph)
        if untraceable(graph) is not None:
            return None
        call = with_constants(graph, self._arguments)
        outputs, first = len(self.real.output_names), [s.initial.array for s in self.real.states]

        def rows(weights: Sequence[Any], *inputs: Any) -> tuple[Any, ...]:
            def step(states: Sequence[Any], given: Sequence[Any]) -> tuple[Any, Any]:
                results = call(weights, [*given, *states])
                return results[outputs:], results[:outputs]

            if not first:
                return tuple(result[None] for result in call(weights, [i[0] for i in inputs])[:outputs])
            return tuple(jax.lax.scan(step, tuple(first), tuple(inputs))[1])

        most = samples_at_once(graph, jax.default_backend())
        return OverSamples(rows, [self._arguments], most=most, quick=True)

    def _together(self, arrays: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> Any:
        assert self._program is not None, "run"
        self._program.share([list(arrays)])
        return self._program(rows)

    def _one_by_one(self, arrays: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """As `_together`, for graphs that jax cannot trace: constants in the graph, a call at a time."""
        moved = {id(old): new for old, new in zip(self._arguments, arrays, strict=True)}
        run = Runner(retype(self.real.graph, lambda t: t, on_const=lambda c: _in_place(c, moved)), quick=True)
        count, first = len(self.real.output_names), [s.initial.array for s in self.real.states]
        found: list[Sequence[Sequence[np.ndarray]]] = []
        for number in range(len(rows[0])):
            states, outputs = first, []
            for call in range(rows[0].shape[1]):
                results = run([*(r[number, call] for r in rows), *states])
                outputs.append(results[:count])
                states = list(results[count:])
            found.append(outputs)
        return [np.stack([np.stack([call[k] for call in row]) for row in found]) for k in range(count)]


def _in_place(const: Const, moved: Mapping[int, np.ndarray]) -> Const:
    return Const(moved[id(const.array)], const.name) if id(const.array) in moved else const


def nudged(weight: Weight, seed: int, number: int) -> np.ndarray:
    """A weight with each number moved by a share of its step between -1/2 and 1/2, all as likely."""
    drawn = np.random.default_rng((seed, number)).uniform(-0.5, 0.5, weight.array.shape)
    return np.asarray(weight.array + drawn * weight.step, np.float32)
