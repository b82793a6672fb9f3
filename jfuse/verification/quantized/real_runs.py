"""Runs a quantized file in floats: as it is, with its activations rounded, and with its weights moved by half steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jfuse.base.settings import own_settings
from jfuse.ir.evaluate import with_constants
from jfuse.ir.graph import Graph, Signature
from jfuse.quantization.real_numbers.activations import Activations, RealSignature, Weight, real_signature
from jfuse.running.over_samples import OverSamples, calls_in_a_row, samples_at_once, samples_for_quick, sizes_in
from jfuse.running.partition import hosted
from jfuse.running.runner import untraceable
from jfuse.verification.subject import Arrays


@dataclass(frozen=True)
class RealRuns:
    """One signature of a quantized file in floats, on samples along a first axis of each input.

    like: the inputs of a run. expected: how many runs of so many samples there will be.
    """

    signature: Signature
    like: Arrays
    expected: int

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
        program = self._program
        outputs = self._one_by_one(arrays, rows) if program is None else self._together(program, arrays, rows)
        return dict(zip(self.real.output_names, outputs, strict=False))

    @property
    def _arguments(self) -> list[np.ndarray]:
        """The constants that a run replaces."""
        return [self.of_file.chosen, *(w.array for w in self.of_file.weights)]

    @cached_property
    def _graph(self) -> Graph:
        return hosted(self.real.graph)

    @cached_property
    def _call(self) -> Callable[..., tuple[Any, ...]]:
        call = with_constants(self._graph, self._arguments)
        return lambda weights, *args: call(weights, args)

    @cached_property
    def _program(self) -> OverSamples | None:
        if untraceable(self._graph) is not None:
            return None
        rows = calls_in_a_row(self._call, len(self.real.input_names), len(self.real.output_names))
        most = samples_at_once(self._graph, jax.default_backend())
        samples, calls = next(iter(self.like.values())).shape[:2]
        sizes = sizes_in(self.signature, self.like, 2)
        quick = samples_for_quick(self._graph, sizes, looped=calls > 1) // calls
        expected = self.expected * samples
        return OverSamples(rows, [self._arguments], self._first, most=most, quick=quick, expected=expected)

    @property
    def _first(self) -> list[np.ndarray]:
        return [state.initial.array for state in self.real.states]

    def _together(self, program: OverSamples, arrays: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> Any:
        program.share([list(arrays)])
        return program(rows)

    def _one_by_one(self, arrays: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """As `_together`, for graphs that jax cannot trace."""
        count = len(self.real.output_names)
        samples: list[list[np.ndarray]] = []
        with own_settings(), jax.enable_x64(True), jax.default_matmul_precision("highest"):
            for sample in zip(*rows, strict=True):
                states, outputs = self._first, []
                for inputs in zip(*sample, strict=True):
                    results = [np.asarray(r) for r in self._call(arrays, *inputs, *states)]
                    outputs.append(results[:count])
                    states = results[count:]
                samples.append([np.stack(of) for of in zip(*outputs, strict=True)])
        return [np.stack(of) for of in zip(*samples, strict=True)]


def nudged(weight: Weight, seed: int, number: int) -> np.ndarray:
    """A weight with each number moved by a share of its step between -1/2 and 1/2, all as likely."""
    drawn = np.random.default_rng((seed, number)).uniform(-0.5, 0.5, weight.array.shape)
    return np.asarray(weight.array + drawn * weight.step, np.float32)
