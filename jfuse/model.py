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
from jfuse.frontends.tf_opaque import CustomOp, TfOp
from jfuse.ir.compilation import quick_jit
from jfuse.ir.evaluate import evaluate, large_constants, with_constants
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.ir.states import first_states, initial_values
from jfuse.ir.text import format_program
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.op import depends_on_data
from jfuse.report import Report


class Model:
    """A program with named signatures. `print(model)` shows its text; calling it runs it on CPU or GPU through XLA.

    `imported` keeps the TensorFlow source, where there is one, so that results can be compared with it.
    """

    def __init__(self, program: Program, imported: Imported | None = None, report: Report | None = None) -> None:
        self.program = program
        self.imported = imported
        self.report = report or Report()
        self._runners: dict[tuple[str, bool], Runner] = {}
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
        """Run one signature on arrays, given by position or by input name, as a first call: from the initial states.

        Returns the result as a NumPy array where there is one, else a dict of them by output name.
        """
        return one_or_all(self.run(self.bind(signature, args, named), signature))

    def stream(self, *, quick: bool = False) -> Stream:
        """The model as an interpreter runs it: what it keeps between calls is kept in the returned object.

        quick: compiled sooner and running slower, which pays for a few calls.
        """
        return Stream(self, quick)

    def bind(self, key: str | None, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Arguments by input name, converted to the inputs' dtypes; raises JfuseError where they do not fit.

        Exposed states that are not given are the initial ones.
        """
        chosen = self.signature(key)
        given = {**dict(zip(chosen.input_names, args, strict=False)), **named}
        optional = {state.name for state in chosen.exposed}
        if len(args) > len(chosen.input_names) or given.keys() | optional != set(chosen.input_names):
            raise JfuseError(
                f"signature {chosen.key!r} takes other inputs", expected=list(chosen.input_names), found=list(given)
            )
        types = {name: var.type for name, var in zip(chosen.input_names, chosen.graph.inputs, strict=False)}
        bound = {name: np.asarray(value, types[name].dtype.numpy) for name, value in given.items()}
        bound |= initial_values([s for s in chosen.exposed if s.name not in bound], types, bound)
        return {name: bound[name] for name in chosen.input_names}

    def run(self, inputs: Mapping[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """Run one signature on arrays by input name, as a first call; the results by output name."""
        return self.step(first_states(self.program), inputs, key)[0]

    def step(
        self,
        states: Mapping[str, np.ndarray],
        inputs: Mapping[str, np.ndarray],
        key: str | None = None,
        *,
        quick: bool = False,
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """One call where the states are given by name: the results by output name, and the states after it.

        quick: as `stream` has it.
        """
        chosen = self.signature(key)
        runner = self._runner(chosen, quick)
        names = [state.name for state in chosen.states]
        results = runner([*(inputs[name] for name in chosen.input_names), *(states[name] for name in names)])
        outputs = dict(zip(chosen.output_names, results, strict=False))
        return outputs, {**states, **dict(zip(names, results[len(outputs) :], strict=True))}

    def _runner(self, signature: Signature, quick: bool) -> Runner:
        if (signature.key, quick) not in self._runners:
            self._runners[signature.key, quick] = Runner(signature.graph, quick)
        return self._runners[signature.key, quick]

    def jax(self, key: str | None = None) -> Callable[..., tuple[Any, ...]]:
        """One signature as a pure JAX function of its inputs, in order, to jit, vmap or differentiate.

        What the signature keeps comes last: the states before the call as arguments, those after it as results.
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


class Stream:
    """Calls in a row: each starts from the states that the one before it left. `states` has them by name."""

    def __init__(self, model: Model, quick: bool = False) -> None:
        self._model = model
        self._quick = quick
        self.reset()

    def reset(self) -> None:
        """Go back to the initial states."""
        self.states = first_states(self._model.program)

    def __call__(self, *args: Any, signature: str | None = None, **named: Any) -> Any:
        """Run one signature, as `Model.__call__` does, and keep its states."""
        return one_or_all(self.run(self._model.bind(signature, args, named), signature))

    def run(self, inputs: Mapping[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """Run one signature on arrays by input name, and keep its states; the results by output name."""
        outputs, self.states = self._model.step(self.states, inputs, key, quick=self._quick)
        return outputs


def one_or_all(results: Mapping[str, np.ndarray]) -> Any:
    """The one result there is, else all of them by name."""
    return next(iter(results.values())) if len(results) == 1 else dict(results)


class Runner:
    """Runs one graph on XLA: as one jitted program, or equation by equation where jax cannot trace it."""

    def __init__(self, graph: Graph, quick: bool = False) -> None:
        self.graph = graph
        self.untraceable = untraceable(graph)
        self._constants = large_constants(graph)
        self._jitted = (quick_jit if quick else jax.jit)(with_constants(graph, self._constants))

    def __call__(self, args: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        with jax.enable_x64(True), jax.default_matmul_precision("highest"):
            results = evaluate(self.graph, args) if self.untraceable else self._jitted(self._constants, tuple(args))
        return tuple(np.asarray(r) for r in results)


def untraceable(graph: Graph) -> str | None:
    """Why jax cannot trace the graph as one program; None where it can."""
    for eqn in all_eqns(graph):
        if isinstance(eqn.op, TfOp | CustomOp):
            return f"{eqn.op.name} is computed by TensorFlow ({eqn.source})"
        if depends_on_data(eqn):
            return f"the result size of {eqn.op.name} depends on data ({eqn.source})"
        if any(a is not None and a.type.dtype is DType.string for a in (*eqn.inputs, *eqn.outputs)):
            return f"{eqn.op.name} works on strings ({eqn.source})"
    return None
