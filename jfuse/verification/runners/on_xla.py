"""The graph of a model, computed by XLA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import jax
import numpy as np

from jfuse.base.limits import Limits
from jfuse.frontends.imported_functions import ImportedFunctions
from jfuse.frontends.sources import Imported
from jfuse.ir.graph import Program, Signature
from jfuse.ir.walk import all_eqns
from jfuse.records.conversion import Report
from jfuse.running.jax_function import JaxFunction
from jfuse.running.over_samples import OverSamples, Together, samples_at_once, samples_for_quick, sizes_in
from jfuse.running.partition import Integers
from jfuse.running.runner import untraceable
from jfuse.verification.runners.one_by_one import one_by_one
from jfuse.verification.subject import Arrays, Calls, Interface, interfaces_of


class ComparedModel(Protocol):
    """A model that can be compared, with its TensorFlow source or None."""

    program: Program
    imported: Imported | None
    functions: ImportedFunctions | None
    report: Report
    limits: Limits | None

    @property
    def integers(self) -> Integers:
        """Who computes quantized integers, as `Model` has it."""

    def to_bytes(self) -> bytes:
        """The bytes of the model's .tflite file."""

    def stream(self, *, quick: bool = False) -> Calls:
        """Calls in a row on XLA."""


@dataclass(frozen=True)
class OnXla:
    """The graph of a model, jitted by XLA."""

    model: ComparedModel
    name: str = "XLA"

    @property
    def program(self) -> Program:
        """The program that the model holds, which XLA compiles."""
        return self.model.program

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """Inputs and outputs of the model's signatures, by key."""
        return interfaces_of(self.program)

    def start(self) -> Calls:
        """Calls in a row, compiled quickly: a comparison makes few."""
        return self.model.stream(quick=True)

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls in one program; one after the other where jax cannot trace the graph, or that takes longer."""
        names = next(s for s in self.program.signatures if s.key == key).input_names
        outputs = None
        if not self._is_timed(key) and not self._is_sooner_singly(key, inputs, in_a_row):
            outputs = self._together(key, in_a_row).run([inputs[name] for name in names])
        if outputs is None:
            return one_by_one(self, inputs, key, in_a_row)
        return dict(zip(self.signatures[key].outputs, outputs, strict=False))  # then the states

    def singly(self, key: str) -> str | None:
        """Why samples run one after the other."""
        if self._is_timed(key):
            return "its loops may never end, so that each call has a limit"
        return next((t.why_not for (k, _), t in self._programs.items() if k == key and t.why_not), None)

    def _is_timed(self, key: str) -> bool:
        """Whether the signature is a file's, with loops of a number of turns that is computed."""
        graph = next(s for s in self.program.signatures if s.key == key).graph
        return self.model.limits is not None and any(eqn.op.name == "while" for eqn in all_eqns(graph))

    def _is_sooner_singly(self, key: str, inputs: Arrays, in_a_row: bool) -> bool:
        """Whether the program for single calls, which is compiled quickly, computes the samples before another is."""
        signature = next(s for s in self.program.signatures if s.key == key)
        if jax.default_backend() != "cpu" or not signature.input_names or untraceable(signature.graph):
            return False
        sizes = sizes_in(signature, inputs, 1 + in_a_row)
        first = next(iter(inputs.values()))
        self._computed[key] = self._computed.get(key, 0) + int(np.prod(first.shape[: 1 + in_a_row]))
        return self._computed[key] <= samples_for_quick(signature.graph, sizes, singly=True)

    @cached_property
    def _computed(self) -> dict[str, int]:
        """How many samples were asked for, by the keys of signatures."""
        return {}

    def _together(self, key: str, in_a_row: bool) -> Together:
        if (key, in_a_row) not in self._programs:
            signature = next(s for s in self.program.signatures if s.key == key)
            most = samples_at_once(signature.graph, jax.default_backend())
            make = partial(_over_samples, signature, self.model.integers, most, in_a_row)
            self._programs[key, in_a_row] = Together(make)
        return self._programs[key, in_a_row]

    @cached_property
    def _programs(self) -> dict[tuple[str, bool], Together]:
        return {}


def _over_samples(signature: Signature, integers: Integers, most: int, in_a_row: bool) -> OverSamples:
    return OverSamples.of(JaxFunction(signature, integers), most, in_a_row=in_a_row)
