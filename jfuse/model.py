"""`Model`: what users hold. It prints, runs on XLA, and is saved as a .tflite file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jfuse.errors import JfuseError
from jfuse.export.flatbuffer import to_bytes, write_atomic
from jfuse.frontends.sources import Imported
from jfuse.ir.evaluate import evaluate, large_constants, with_constants
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.ir.text import format_program
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.report import Report


class Model:
    """A program with named signatures. `print(model)` shows its text; calling it runs it on CPU or GPU through XLA.

    `imported` keeps the TensorFlow source, where there is one, so that results can be compared with it.
    """

    def __init__(self, program: Program, imported: Imported | None = None, report: Report | None = None) -> None:
        self.program = program
        self.imported = imported
        self.report = report or Report()
        self._runners: dict[str, Runner] = {}
        self._bytes: bytes | None = None

    def __str__(self) -> str:
        return format_program(self.program)

    def __repr__(self) -> str:
        return f"Model({', '.join(self.signatures)})"

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures by key."""
        return {s.key: s for s in self.program.signatures}

    def signature(self, key: str | None = None) -> Signature:
        """The signature of a key; without one the default: `serving_default`, else the first."""
        table = self.signatures
        if key is None:
            key = "serving_default" if "serving_default" in table else next(iter(table))
        if key not in table:
            raise JfuseError(f"the model has no signature {key!r}", expected=f"one of {list(table)}")
        return table[key]

    def __call__(self, *args: Any, signature: str | None = None, **named: Any) -> Any:
        """Run one signature on arrays, given by position or by input name.

        Returns the result as a NumPy array where there is one, else a dict of them by output name.
        """
        results = self.run(self.bind(signature, args, named), signature)
        return next(iter(results.values())) if len(results) == 1 else results

    def bind(self, key: str | None, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Arguments by input name, converted to the inputs' dtypes; raises JfuseError where they do not fit."""
        chosen = self.signature(key)
        given = {**dict(zip(chosen.input_names, args, strict=False)), **named}
        if len(args) > len(chosen.input_names) or given.keys() != set(chosen.input_names):
            raise JfuseError(
                f"signature {chosen.key!r} takes other inputs", expected=list(chosen.input_names), found=list(given)
            )
        types = dict(zip(chosen.input_names, chosen.graph.inputs, strict=True))
        return {name: np.asarray(given[name], types[name].type.dtype.numpy) for name in chosen.input_names}

    def run(self, inputs: Mapping[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """Run one signature on arrays by input name; the results by output name."""
        chosen = self.signature(key)
        runner = self._runners.setdefault(chosen.key, Runner(chosen.graph))
        results = runner([inputs[name] for name in chosen.input_names])
        return dict(zip(chosen.output_names, results, strict=True))

    def jax(self, key: str | None = None) -> Callable[..., tuple[Any, ...]]:
        """One signature as a pure JAX function of its inputs, in order, to jit, vmap or differentiate.

        Raises JfuseError where jax cannot trace the graph (result sizes that depend on data, strings).
        """
        chosen = self.signature(key)
        reason = untraceable(chosen.graph)
        if reason is not None:
            raise JfuseError(f"signature {chosen.key!r} cannot be traced by jax", found=reason)
        return lambda *args: evaluate(chosen.graph, args)

    def to_bytes(self) -> bytes:
        """The .tflite file, written once. Raises LowerError where the program has not been lowered to builtins."""
        if self._bytes is None:
            self._bytes = to_bytes(self.program)
        return self._bytes

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the .tflite file: to a temporary name first, then renamed, so that nothing is left half written."""
        write_atomic(path, self.to_bytes())
        return Path(path)


class Runner:
    """Runs one graph on XLA: as one jitted program, or equation by equation where jax cannot trace it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.untraceable = untraceable(graph)
        self._constants = large_constants(graph)
        self._jitted = jax.jit(with_constants(graph, self._constants))

    def __call__(self, args: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        with jax.enable_x64(True), jax.default_matmul_precision("highest"):
            results = evaluate(self.graph, args) if self.untraceable else self._jitted(self._constants, tuple(args))
        return tuple(np.asarray(r) for r in results)


def untraceable(graph: Graph) -> str | None:
    """Why jax cannot trace the graph as one program; None where it can."""
    for eqn in all_eqns(graph):
        if not getattr(eqn.op, "traceable", True):
            return f"the result size of {eqn.op.name} depends on data ({eqn.source})"
        if any(a is not None and a.type.dtype is DType.string for a in (*eqn.inputs, *eqn.outputs)):
            return f"{eqn.op.name} works on strings ({eqn.source})"
    return None
