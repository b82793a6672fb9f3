"""`Model`: the object that users work with. It prints, runs on XLA, and is saved as a .tflite file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr

from jfuse.base.errors import JfuseError, need_choice, shown
from jfuse.base.files import CPP_SUFFIXES, write_atomic
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.limits import Limits
from jfuse.base.notebooks import NotebookView
from jfuse.frontends.imported_functions import ImportedFunctions
from jfuse.frontends.sources import Imported
from jfuse.ir.dims import same
from jfuse.ir.graph import Program, Signature
from jfuse.ir.states import cleared_with_sizes, explicit_states, first_states, initial_values, with_explicit_states
from jfuse.ir.text import format_program
from jfuse.ir.types import TensorType
from jfuse.kernels.core.integer_types import ROUNDINGS, Rounding
from jfuse.passes.gates.builtins_only import builtins_only
from jfuse.programs.constants import with_constants
from jfuse.programs.cost import ProgramCost, cost_of
from jfuse.programs.straight_through import straight_through as in_real_numbers
from jfuse.programs.tensor_names import tensors_of
from jfuse.quantization.statistics import Statistics
from jfuse.records.conversion import Report
from jfuse.records.verification import Verification
from jfuse.running.in_litert import WHY, runs_whole, whole
from jfuse.running.jax_function import JaxFunction
from jfuse.running.micro import measured_arena
from jfuse.running.partition import Integers, integers_of, without_body
from jfuse.running.runner import Runner
from jfuse.tflite.associated_files import with_files
from jfuse.tflite.c_source import c_files
from jfuse.tflite.mapped_file import need_unchanged
from jfuse.tflite.model_metadata import Metadata, metadata_of
from jfuse.tflite.write.file import FileParts, file_parts
from jfuse.tflite.write.model_metadata import with_metadata


class Model(NotebookView):
    """A program with named signatures. `print(model)` shows its text; calling it runs it on CPU or GPU through XLA.

    `imported` keeps the TensorFlow source, `functions` the jax functions, where there are any, so that results can be
    compared with them. `limits` are for running it, if it was read from a file. `unquantized` is the float
    model, of one that was quantized. `verification` is the comparison of `jfuse.convert`; None without one.
    `statistics` are those of the calibration, if any: to save, merge, and give as `calibration=` again.
    """

    verification: Verification | None = None
    statistics: Statistics | None = None

    def __init__(
        self,
        program: Program,
        imported: Imported | None = None,
        report: Report | None = None,
        limits: Limits | None = None,
        unquantized: Model | None = None,
        functions: ImportedFunctions | None = None,
    ) -> None:
        self.program = program
        self.unquantized = unquantized
        self.imported = imported
        self.functions = functions
        self.report = report or Report()
        self.limits = limits
        self._runners: dict[tuple[str, bool], Runner] = {}
        self._bytes: bytes | None = None
        self._parts: FileParts | None = None
        self._rounding: Rounding | None = None

    @cached_property
    def integers(self) -> Integers:
        """The rounding of quantized integers on XLA, as `rounded_as` has them; None where LiteRT computes them."""
        return self._rounding or integers_of(self.program.graphs())

    @cached_property
    def _runs_whole(self) -> bool:
        return runs_whole(self.program)

    @cached_property
    def _cleared(self) -> Mapping[int, tuple[str, ...]]:
        return cleared_with_sizes(self.program)

    def __str__(self) -> str:
        need_unchanged(self.program)
        return format_program(self.program)

    def __repr__(self) -> str:
        return f"Model({', '.join(self.signatures)})"

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures that can be called, by key (as `serving_default`), in the order of the file."""
        return {s.key: s for s in self.program.signatures}

    @property
    def imported_program(self) -> Program | None:
        """The program as it was imported from TensorFlow, JAX or PyTorch; None where the model is of neither."""
        origin = self.imported or self.functions
        return None if origin is None else origin.program

    def signature(self, key: str | None = None) -> Signature:
        """The signature of a key; without one the default: `serving_default`, else the first."""
        return self.program.signature(key)

    @only_jfuse_errors("running the model", on_values=True)
    def __call__(self, *args: Any, signature: str | None = None, **named: Any) -> Any:
        """Run one signature on arrays, given by position or by input name, as a first call: from the initial states.

        Returns the result as a NumPy array where there is one, else a dict of them by output name.
        """
        return one_or_all(self.run(self.bind(signature, args, named), signature))

    def stream(self, *, quick: bool = False) -> Stream:
        """The model as an interpreter runs it: the returned object keeps its states between calls.

        quick: compiled sooner and running slower, which pays for a few calls.
        """
        return Stream(self, quick)

    def bind(self, key: str | None, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Arguments by input name, converted to the inputs' dtypes; raises JfuseError where they do not fit.

        Exposed states that are not given are the initial ones.
        """
        chosen = self.signature(key)
        if not isinstance(named, Mapping):
            raise JfuseError("the inputs of a call are arrays by name", found=shown(named))
        given = {**dict(zip(chosen.input_names, args, strict=False)), **named}
        optional = {state.name for state in chosen.exposed}
        if len(args) > len(chosen.input_names) or given.keys() | optional != set(chosen.input_names):
            raise JfuseError(
                f"signature {chosen.key!r} takes other inputs", expected=list(chosen.input_names), found=list(given)
            )
        types = {name: var.type for name, var in zip(chosen.input_names, chosen.graph.inputs, strict=False)}
        bound = {name: _argument(name, value, types[name]) for name, value in given.items()}
        bound |= initial_values([s for s in chosen.exposed if s.name not in bound], types, bound)
        return {name: bound[name] for name in chosen.input_names}

    @only_jfuse_errors("running the model", on_values=True)
    def run(self, inputs: Mapping[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """Run one signature on arrays by input name, as a first call; the results by output name."""
        return self.stream().run(inputs, key)

    def step(
        self,
        states: Mapping[str, np.ndarray],
        inputs: Mapping[str, np.ndarray],
        key: str | None = None,
        *,
        quick: bool = False,
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """One call where the states are given by name: the results by output name, and the states after it.

        quick: as in `stream`. Raises JfuseError if only LiteRT holds the states: `stream` runs such a model.
        """
        if self._runs_whole:
            raise JfuseError("the states of this model are no values", found=WHY, remedy="model.stream()")
        need_unchanged(self.program)
        chosen = self.signature(key)
        runner = self.runner(key, quick=quick)
        names = [state.name for state in chosen.states]
        results = runner([*(inputs[name] for name in chosen.input_names), *(states[name] for name in names)])
        outputs = dict(zip(chosen.output_names, results, strict=False))
        return outputs, {**states, **dict(zip(names, results[len(outputs) :], strict=True))}

    def runner(self, key: str | None = None, *, quick: bool = False) -> Runner:
        """How one signature runs: its `str` says whether as one program, and names the operators that LiteRT computes.

        quick: as `stream` has it.
        """
        chosen = self.signature(key)
        if (chosen.key, quick) not in self._runners:
            self._runners[chosen.key, quick] = Runner(chosen.graph, quick, self.limits, self.integers)
        return self._runners[chosen.key, quick]

    def jax(self, key: str | None = None, *, straight_through: bool = False) -> JaxFunction:
        """One signature as a pure JAX function of arrays, to jit, vmap or differentiate.

        straight_through: a quantized signature as a function of real numbers: inputs, results and `weights` are those
            of the quantized ones, rounded to their steps, and each rounding passes its gradient on. The results
            are those of the file up to a step or so.

        States come last: those before the call as arguments, those after it as results; first those of
        `initial_states(key)`. Raises JfuseError where jax cannot trace the graph (result sizes that depend on data,
        strings).
        """
        if straight_through:
            return _straight(self.signature(key))
        return JaxFunction(self.signature(key), self.integers)

    @only_jfuse_errors("replacing constants")
    def with_constants(self, values: Mapping[str, Any], key: str | None = None) -> Model:
        """The model with other numbers for some constants, by the names of `jax(key).weights`.

        Of quantized constants the values are real numbers, as those of `jax(key, straight_through=True)`: they are
        rounded to the steps of the file and cut off at their ends. Other signatures that read them get them as well.
        """
        return Model(with_constants(self.program, self.signature(key), values), limits=self.limits)

    def jaxpr(self, key: str | None = None, *, sizes: Mapping[str, int] | None = None) -> ClosedJaxpr:
        """One signature as jax's own ClosedJaxpr, which jax's tools read; `jfuse.load` takes it back.

        It has the arguments and results of `jax(key)`; the weights are its constants.
        sizes: for open sizes, by the names that `print(model)` shows; others stay open where jax can trace them.
        Raises JfuseError where jax cannot trace the graph.
        """
        return self.jax(key).jaxpr(sizes)

    @only_jfuse_errors("counting the cost")
    def cost(
        self, key: str | None = None, *, sizes: Mapping[str, int] | None = None, measure: bool = False
    ) -> ProgramCost:
        """Compute the cost of one call of a signature: products, bytes and memory by operator, type and layer.

        sizes: for open sizes, by the names that `print(model)` shows; 1 for others.
        measure: also run each operator alone in LiteRT, here, on zeros; the model must be lowered.
        """
        return cost_of(self.signature(key), sizes, self.to_bytes() if measure else None)

    def tensor_names(self, key: str | None = None) -> tuple[str, ...]:
        """The names of a signature's inputs, outputs and inner values, for `jfuse.extract`."""
        return tuple(tensors_of(self.signature(key)))

    def initial_states(self, key: str | None = None) -> tuple[np.ndarray, ...]:
        """States of a signature before the first call, in the order that `jax(key)` takes them."""
        return tuple(state.initial.array for state in self.signature(key).states)

    @only_jfuse_errors("loading")
    def keeping(self, states: str | Mapping[str, Sequence[Any]]) -> Model:
        """The model with pairs of inputs and outputs turned into states that it keeps.

        states: by name an input and an output of one type, and the value before the first call where it is not zero:
        {"h": ("h_in", "h_out")}. A signature may have one of the two alone. A mode of `lower` leaves the model as it
        is. Raises JfuseError where there are no such.
        """
        if isinstance(states, str):
            return self
        asked = explicit_states(states)
        program = with_explicit_states(self.program, asked)
        imported = self.imported and replace(self.imported, explicit_states=asked)
        functions = self.functions and replace(
            self.functions, explicit_states=(*self.functions.explicit_states, *asked)
        )
        return Model(program, imported, self.report, self.limits, self.unquantized, functions)

    @only_jfuse_errors("writing the file")
    def to_bytes(self) -> bytes:
        """The .tflite file, written once. Raises LowerError where the program has not been lowered to builtins."""
        if self._bytes is None:
            self._bytes = self._in_parts().joined()
            self._parts = None
        return self._bytes

    @property
    @only_jfuse_errors("measuring the file")
    def size_bytes(self) -> int:
        """The size of the .tflite file in bytes; the file itself need not be in memory for it."""
        return self._in_parts().size if self._bytes is None else len(self._bytes)

    def _in_parts(self) -> FileParts:
        if self._parts is None:
            builtins_only(self.program.entries())
            self._parts = file_parts(self.program)
        need_unchanged(self.program)
        return self._parts

    def with_bytes(self, data: bytes, report: Report) -> Model:
        """The model with another report, saved as these bytes, which hold the same program."""
        other = self._of(self.program, report)
        other._bytes = data
        return other

    def _of(self, program: Program, report: Report) -> Model:
        other = Model(program, self.imported, report, self.limits, self.unquantized, self.functions)
        other._rounding = self._rounding
        other.statistics = self.statistics
        return other

    @only_jfuse_errors("choosing a rounding")
    def rounded_as(self, rounding: Rounding) -> Model:
        """The same model, whose quantized integers XLA rounds as a runtime does, in every bit.

        rounding: "xnnpack" (LiteRT on its default path on x86-64, which is the default here), "arm64" (the same on
            arm64), "reference" (LiteRT's reference kernels) or "tflm" (tflite-micro).
        Raises JfuseError where an operator has no integer body in that rounding, and names the first.
        """
        need_choice("rounding", rounding, ROUNDINGS)
        missing = without_body(self.program.graphs(), rounding)
        if missing is not None:
            raise JfuseError(
                f"no integer body computes {missing.op.name} as {rounding} does",
                where=str(missing.source) or None,
                found=str(missing),
                remedy="the model itself: LiteRT computes operators without a body"
                if self.integers is None
                else "another rounding",
            )
        other = self._of(self.program, self.report)
        other._bytes, other._rounding = self._bytes, rounding
        return other

    @only_jfuse_errors("writing metadata")
    def with_metadata(self, metadata: Metadata | Mapping[str, Any] | str | os.PathLike[str]) -> Model:
        """The model with metadata for its file: names, labels, vocabularies, normalization, associated files.

        metadata: a `jfuse.Metadata`, a mapping of its fields, or the path of a .json file with them.
        Raises JfuseError for a tensor that no signature has, or a file that cannot be read.
        """
        known = metadata_of(metadata)
        program = with_metadata(self.program, known)
        other = self._of(program, self.report)
        if files := known.associated():
            other._bytes = with_files(other.to_bytes(), files)
        return other

    @only_jfuse_errors("saving the file")
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the .tflite file: to a temporary name first, then renamed, so that nothing is left half written."""
        write_atomic(path, self._in_parts() if self._bytes is None else self._bytes)
        return Path(path)

    def save_c_array(self, path: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write the file as C++ source for tflite-micro: model.cc, and beside it model.h and model_ops.h.

        The header has the length and, where tflite-micro's interpreter is installed and runs the file, the arena in
        bytes that it needs; model_ops.h adds the operators of the model to a MicroMutableOpResolver.
        """
        target = Path(path)
        if target.suffix not in CPP_SUFFIXES:
            raise JfuseError("a C++ source has another suffix", where=str(path), expected=", ".join(CPP_SUFFIXES))
        data = self.to_bytes()
        arena, _ = measured_arena(self.program, data)
        texts = c_files(data, target, None if arena is None else (arena.needed, arena.on_32_bits))
        for name, text in texts.items():
            write_atomic(target.with_name(name), text.encode())
        return tuple(target.with_name(name) for name in texts)


class Stream:
    """Calls in a row: each starts from the states that the one before it left. `states` has them by name.

    As in LiteRT, a file's own state tensors are cleared where an input has another size than in the call before.
    """

    def __init__(self, model: Model, quick: bool = False) -> None:
        self._model = model
        self._quick = quick
        self.reset()

    def reset(self) -> None:
        """Go back to the initial states."""
        program = self._model.program
        self.states = first_states(program)
        self._shapes: dict[int, list[tuple[int, ...]]] = {}
        self._litert = whole(program, self._model.limits) if self._model._runs_whole else None

    @only_jfuse_errors("running the model", on_values=True)
    def __call__(self, *args: Any, signature: str | None = None, **named: Any) -> Any:
        """Run one signature, as `Model.__call__` does, and keep its states."""
        return one_or_all(self.run(self._model.bind(signature, args, named), signature))

    @only_jfuse_errors("running the model", on_values=True)
    def run(self, inputs: Mapping[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """Run one signature on arrays by input name, and keep its states; the results by output name."""
        if not isinstance(inputs, Mapping) or any(value is None for value in inputs.values()):
            raise JfuseError("the inputs of a call are arrays by name", found=shown(inputs))
        if self._litert is not None:
            return self._litert.run(self._model.signature(key).key, inputs)
        chosen = self._model.signature(key)
        shapes = [np.shape(inputs[name]) for name in chosen.input_names]
        if self._shapes.setdefault(id(chosen.graph), shapes) != shapes:
            first = first_states(self._model.program)
            cleared = self._model._cleared.get(id(chosen.graph), ())
            self.states = {**self.states, **{name: first[name] for name in cleared}}
        self._shapes[id(chosen.graph)] = shapes
        outputs, self.states = self._model.step(self.states, inputs, key, quick=self._quick)
        return outputs


def _straight(signature: Signature) -> JaxFunction:
    real, names = in_real_numbers(signature)
    return JaxFunction(real, names=names)


def one_or_all(results: Mapping[str, np.ndarray]) -> Any:
    """The one result there is, else all of them by name."""
    return next(iter(results.values())) if len(results) == 1 else dict(results)


def _argument(name: str, value: Any, wanted: TensorType) -> np.ndarray:
    """An argument as an array of an input's dtype; raises JfuseError where it is none, or of another shape."""
    try:
        array = np.asarray(value, wanted.dtype.numpy)
    except (TypeError, ValueError, OverflowError) as error:
        raise JfuseError(f"input {name!r} takes another value", expected=str(wanted), found=str(error)) from error
    sizes = zip(array.shape, wanted.shape, strict=False)
    if wanted.ranked and (array.ndim != wanted.rank or any(same(d, size) is False for size, d in sizes)):
        found = str(TensorType(array.shape, wanted.dtype))
        raise JfuseError(f"input {name!r} takes another shape", expected=str(wanted), found=found)
    return array
