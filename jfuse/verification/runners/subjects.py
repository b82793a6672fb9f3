"""Who computes: a model on XLA, its bytes in LiteRT, its source in TensorFlow, a function of JAX."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import jax
import numpy as np

from jfuse.errors import JfuseError, VerifyFailed
from jfuse.frontends.imported_functions import ImportedFunctions
from jfuse.frontends.sources import Imported
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Program, Signature
from jfuse.ir.states import first_states
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.limits import DEFAULT_LIMITS, Limits
from jfuse.proof.inputs import concrete
from jfuse.report import Report
from jfuse.running.interpreter import LiteRt
from jfuse.running.jax_function import JaxFunction
from jfuse.running.over_samples import OverSamples, Together, samples_at_once
from jfuse.running.partition import Integers, integers_of, with_delegates
from jfuse.running.worker import LiteRtFailed, Refused
from jfuse.verification.runners.in_tensorflow import run_tensorflow, set_variables
from jfuse.verification.runners.in_torch import InTorch
from jfuse.verification.runners.joined import can_be_joined, run_joined
from jfuse.verification.runners.litert_workers import LiteRtWorkers
from jfuse.verification.runners.one_by_one import StatelessCalls, one_by_one
from jfuse.verification.runners.processes import shared_out
from jfuse.verification.subject import Arrays, Calls, Interface

_FEW = 16  # samples for which no process is started


class Runnable(Protocol):
    """What can be compared: a model of jfuse, with the TensorFlow source that it came from or None."""

    program: Program
    imported: Imported | None
    functions: ImportedFunctions | None
    report: Report
    limits: Limits | None

    def to_bytes(self) -> bytes:
        """The file."""

    def stream(self, *, quick: bool = False) -> Calls:
        """Calls in a row on XLA."""


def interface_of(signature: Signature) -> Interface:
    """What a signature takes and gives."""
    inputs = {n: v.type for n, v in zip(signature.input_names, signature.graph.inputs, strict=False)}
    states, exposed = (tuple(s.name for s in of) for of in (signature.states, signature.exposed))
    return Interface(inputs, signature.output_names, states, exposed)


def interfaces_of(program: Program) -> dict[str, Interface]:
    """What the signatures of a program take and give, by key."""
    return {s.key: interface_of(s) for s in program.signatures}


@dataclass(frozen=True)
class OnXla:
    """The graph of a model, jitted by XLA."""

    model: Runnable
    name: str = "XLA"

    @property
    def program(self) -> Program:
        """The model's."""
        return self.model.program

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """The model's."""
        return interfaces_of(self.program)

    def start(self) -> Calls:
        """Calls in a row, compiled quickly: a comparison makes few."""
        return self.model.stream(quick=True)

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls in one program; one after the other where jax cannot trace the graph."""
        return shared_out(partial(self._batch, key, in_a_row), inputs)

    def _batch(self, key: str, in_a_row: bool, inputs: Arrays) -> dict[str, np.ndarray]:
        names = next(s for s in self.program.signatures if s.key == key).input_names
        outputs = None
        if not self._is_timed(key):
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

    def _together(self, key: str, in_a_row: bool) -> Together:
        if (key, in_a_row) not in self._programs:
            signature = next(s for s in self.program.signatures if s.key == key)
            most = samples_at_once(signature.graph, jax.default_backend())
            make = partial(_over_samples, signature, integers_of(self.program.graphs()), most, in_a_row)
            self._programs[key, in_a_row] = Together(make)
        return self._programs[key, in_a_row]

    @cached_property
    def _programs(self) -> dict[tuple[str, bool], Together]:
        return {}


@dataclass(frozen=True)
class InLiteRt:
    """A file in the LiteRT interpreter. program: what the file says.

    limits: of its processes.

    With its default delegates where `with_delegates` says so.
    """

    data: bytes
    program: Program
    name: str = "LiteRT"
    limits: Limits = DEFAULT_LIMITS

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """The file's."""
        return interfaces_of(self.program)

    def start(self) -> Calls:
        """An interpreter of its own."""
        return _InterpreterCalls(self.data, self.delegates, self.limits)

    @cached_property
    def delegates(self) -> bool:
        """Whether XNNPACK takes part."""
        return with_delegates(self.program)

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls in one process for each core; a few of them here."""
        return shared_out(partial(self._batch, key, in_a_row), inputs)

    def _batch(self, key: str, in_a_row: bool, inputs: Arrays) -> dict[str, np.ndarray]:
        if len(next(iter(inputs.values()))) < _FEW:
            return one_by_one(self, inputs, key, in_a_row)
        try:
            fresh = any(i.states for i in self.signatures.values())
            return self._workers.run(inputs, key, fresh=fresh, in_a_row=in_a_row)
        except Refused:
            return one_by_one(self, inputs, key, in_a_row)

    def singly(self, key: str) -> str | None:
        """Never: an interpreter takes one call at a time, but there is one for each core."""
        return None

    @cached_property
    def _workers(self) -> LiteRtWorkers:
        return LiteRtWorkers(self.data, delegates=self.delegates, limits=self.limits)

    def close(self) -> None:
        """End the processes, if any; the next batch starts others."""
        if "_workers" in self.__dict__:
            self._workers.close()


class _InterpreterCalls:
    def __init__(self, data: bytes, delegates: bool, limits: Limits) -> None:
        self._data = data
        self._delegates = delegates
        self._limits = limits
        self.states: Arrays = {}  # no interpreter tells
        self.reset()

    def reset(self) -> None:
        self._interpreter = LiteRt(self._data, delegates=self._delegates, limits=self._limits)
        self._row: list[tuple[str, Arrays]] = []

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        assert key is not None
        self._row.append((key, inputs))
        try:
            return self._interpreter.run(key, inputs)
        except LiteRtFailed as error:
            error.message += f", the {ordinal(len(self._row))} of a row"
            error.calls = tuple(self._row)
            raise


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, …"""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


@dataclass(frozen=True)
class InTensorFlow:
    """The source's own functions. Its variables hold what the last call left: put them back when all is done."""

    imported: Imported
    name: str = "TensorFlow"

    @property
    def program(self) -> Program:
        """The source as it was imported."""
        return self.imported.program

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """The source's."""
        return interfaces_of(self.program)

    def start(self) -> Calls:
        """Calls from what the variables held when the source was imported."""
        return _TensorFlowCalls(self.imported)

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls as one, where rows of an open first axis do not depend on each other; else one by one."""
        return shared_out(partial(self._batch, key, in_a_row), inputs)

    def _batch(self, key: str, in_a_row: bool, inputs: Arrays) -> dict[str, np.ndarray]:
        if self.singly(key) is None and not in_a_row:
            joined = _TensorFlowCalls(self.imported, samples=len(next(iter(inputs.values()))))
            outputs = run_joined(partial(joined.run, key=key), inputs)
            if outputs is not None:
                return outputs
            self._mixing.add(key)
        return one_by_one(self, inputs, key, in_a_row)

    def singly(self, key: str) -> str | None:
        """Why samples run one after the other."""
        if not can_be_joined(self.signatures[key]) or any(i.states for i in self.signatures.values()):
            return "it has variables, or inputs of a fixed size"
        return "its rows depend on each other" if key in self._mixing else None

    @cached_property
    def _mixing(self) -> set[str]:
        return set()


class _TensorFlowCalls:
    def __init__(self, imported: Imported, samples: int = 1) -> None:
        self._imported = imported
        self._samples = samples
        self.reset()

    @property
    def states(self) -> Arrays:
        return {name: variable.numpy() for name, variable in self._imported.variables.items()}

    def reset(self) -> None:
        set_variables(self._imported, first_states(self._imported.program))

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        assert key is not None
        return run_tensorflow(self._imported.functions[key], inputs, self._imported.limits, self._samples)


@dataclass(frozen=True)
class InJax:
    """A function of jax.numpy arrays, called by position and jitted where jax can.

    inputs: the types of its arguments by name, in order. key: of its one signature. sizes: for dimensions that are
    open in `inputs`, to find out what the function returns: a mapping's results go by its keys, others by `output_0`
    and so on.
    """

    function: Callable[..., Any]
    inputs: Mapping[str, TensorType]
    sizes: Mapping[str, int] = field(default_factory=dict)
    key: str = "serving_default"
    name: str = "JAX"

    program = None

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """One, of what `jax.eval_shape` says that the function returns."""
        specs = [jax.ShapeDtypeStruct(concrete(t.shape, self.sizes), t.dtype.numpy) for t in self.inputs.values()]
        try:
            results = jax.eval_shape(self.function, *specs)
        except Exception as error:  # the user's code
            raise JfuseError(
                f"the function {_name_of(self.function)} does not take what the other side takes",
                expected=[f"{name}: {t}" for name, t in self.inputs.items()],
                found=" ".join(str(error).split())[:300],
                remedy="give the function an attribute input_signature, or compare it with what takes the same",
            ) from error
        return {self.key: Interface(self.inputs, tuple(_named(results)))}

    @cached_property
    def _jitted(self) -> Callable[..., Any]:
        return jax.jit(self.function)

    def start(self) -> Calls:
        """Calls; a function keeps nothing."""
        return StatelessCalls(self._run)

    def _run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        arguments = [inputs[name] for name in self.inputs]
        with jax.default_matmul_precision("highest"):
            try:
                results = self._jitted(*arguments)
            except (TypeError, ValueError, jax.errors.JAXTypeError, jax.errors.JaxRuntimeError) as error:
                raise VerifyFailed(
                    f"the function {_name_of(self.function)} fails", found=" ".join(str(error).split())[:300]
                ) from error
        return {name: np.asarray(result) for name, result in _named(results).items()}

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls in one program, where jax can trace the function; else one after the other."""
        return shared_out(partial(self._batch, key, in_a_row), inputs)

    def _batch(self, key: str, in_a_row: bool, inputs: Arrays) -> dict[str, np.ndarray]:
        outputs = None if in_a_row else self._together.run([inputs[name] for name in self.inputs])
        return one_by_one(self, inputs, key, in_a_row) if outputs is None else dict(outputs)

    def singly(self, key: str) -> str | None:
        """Why samples run one after the other."""
        return self._together.why_not

    @cached_property
    def _together(self) -> Together:
        return Together(lambda: OverSamples(lambda *args: _named(self.function(*args)), wide=False))


@dataclass(frozen=True)
class InFunctions:
    """The functions that a model was made from, of jax arrays or of PyTorch: each signature by its own."""

    imported: ImportedFunctions

    @property
    def name(self) -> str:
        """JAX or PyTorch."""
        return next(iter(self.imported.functions.values())).library

    @property
    def program(self) -> Program:
        """The functions as they were imported."""
        return self.imported.program

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """Those of the functions."""
        return interfaces_of(self.program)

    @cached_property
    def _parts(self) -> Mapping[str, InJax | InTorch]:
        return {
            key: InJax(f.call, f.inputs, key=key) if f.library == "JAX" else InTorch(f, self.signatures[key])
            for key, f in self.imported.functions.items()
        }

    def start(self) -> Calls:
        """Calls; functions keep nothing."""
        return _FunctionCalls(self._parts)

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls in one program, as `InJax` makes them, or as `InTorch` does."""
        return self._parts[key].batch(inputs, key, in_a_row=in_a_row)

    def singly(self, key: str) -> str | None:
        """Why samples run one after the other."""
        return self._parts[key].singly(key)


@dataclass
class _FunctionCalls:
    parts: Mapping[str, InJax | InTorch]
    states: Arrays = field(default_factory=dict)

    def reset(self) -> None:
        pass

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        assert key is not None
        return self.parts[key].start().run(inputs, key)


def source_of(model: Runnable) -> InTensorFlow | InFunctions | None:
    """Whoever computes the source of a model, where it has one."""
    if model.functions is not None:
        return InFunctions(model.functions)
    return None if model.imported is None else InTensorFlow(model.imported)


def stated_inputs(function: Callable[..., Any]) -> dict[str, TensorType] | None:
    """The types that a function's `input_signature` states (anything with shape and dtype, None where open), if any."""
    stated = getattr(function, "input_signature", None)
    if stated is None:
        return None
    names = parameter_names(function, len(stated))
    return {n: _type_of(spec, n) for n, spec in zip(names, stated, strict=True)}


def parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of a function's first parameters, `args_0` and so on where it does not name them."""
    try:
        parameters: Sequence[inspect.Parameter] = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = ()
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return named[:count] if len(named) >= count else [f"args_{i}" for i in range(count)]


def _type_of(spec: Any, name: str) -> TensorType:
    shape = tuple(symbol(f"{name}_{axis}") if d is None else int(d) for axis, d in enumerate(spec.shape))
    dtype = getattr(spec.dtype, "as_numpy_dtype", spec.dtype)  # TensorFlow's dtypes tell NumPy's
    return TensorType(shape, DType.of(dtype))


def _named(results: Any) -> dict[str, Any]:
    if isinstance(results, Mapping):
        return {str(key): results[key] for key in sorted(results)}
    leaves = jax.tree_util.tree_leaves(results)
    return {f"output_{i}": leaf for i, leaf in enumerate(leaves)}


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _over_samples(signature: Signature, integers: Integers, most: int, in_a_row: bool) -> OverSamples:
    return OverSamples.of(JaxFunction(signature, integers), most, in_a_row=in_a_row)
