"""Whole models against their source: TensorFlow, the graph on XLA, and the bytes in LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Protocol

import jax
import numpy as np

from jfuse.errors import VerifyFailed
from jfuse.frontends.sources import Imported
from jfuse.frontends.tflite_file import load_tflite
from jfuse.ir.dims import symbol, symbols_of
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.ir.states import first_states, initial_values
from jfuse.ir.text import format_graph
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns, all_graphs, rename_dims
from jfuse.report import Difference, Report
from jfuse.verification.around import AroundCustom, can_be_cut, has_custom, results_by_chance
from jfuse.verification.bisect import Call, Place, first_difference
from jfuse.verification.inputs import draws, size_choices
from jfuse.verification.measure import relative_error
from jfuse.verification.oracles import LiteRt
from jfuse.verification.oracles_tensorflow import run_tensorflow, set_variables, variables_restored
from jfuse.verification.promised import keep_promises
from jfuse.verification.vocabularies import vocabularies, with_keys

Outputs = Mapping[str, np.ndarray]
Run = Callable[[Mapping[str, np.ndarray]], Outputs]


class Calls(Protocol):
    """Calls of a model on XLA, each from the states that the one before it left."""

    @property
    def states(self) -> Mapping[str, np.ndarray]:
        """What they hold by now, by name."""

    def run(self, inputs: Mapping[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """The outputs of one signature."""

    def reset(self) -> None:
        """Go back to the initial states."""


class Runnable(Protocol):
    """What can be compared: a model of jfuse, with the TensorFlow source that it came from or None."""

    program: Program
    imported: Imported | None
    report: Report

    def to_bytes(self) -> bytes:
        """The file."""

    def stream(self, *, quick: bool = False) -> Calls:
        """Calls in a row on XLA."""


_PRODUCTS = frozenset({"FULLY_CONNECTED", "BATCH_MATMUL"})
_CONVOLUTIONS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "CONV_3D", "CONV_3D_TRANSPOSE"})


def tolerance_of(program: Program) -> float:
    """The largest max|a - b| / max|b| that kernels of another summation order may differ by.

    In f32 1e-4 for stacks of convolutions (thousands of terms a sum, dozens of layers), 1e-5 else (measured: 1e-6), and
    more for stacks of more than 200 matrix products, in proportion (measured: 1.1e-5 for 600 dense layers).
    Where something is computed in f16 or bf16, five roundings of that type (2^-11, 2^-8).
    """
    eqns = [eqn for graph in program.graphs() for eqn in all_eqns(graph)]
    dtypes = {out.type.dtype for eqn in eqns for out in eqn.outputs}
    if DType.bf16 in dtypes:
        return 5 * 2**-8
    if DType.f16 in dtypes:
        return 5 * 2**-11
    builtins = [getattr(eqn.op, "builtin", "") for eqn in eqns]
    if _CONVOLUTIONS.intersection(builtins):
        return 1e-4
    return 1e-5 * max(1.0, sum(b in _PRODUCTS for b in builtins) / 200)


def verify_model(lite: Runnable, reference: Runnable, *, seed: int = 0) -> list[Difference]:
    """The worst difference of each output of each signature; raises VerifyFailed where one is beyond its tolerance.

    The reference is TensorFlow where the source is at hand, else the reference model on XLA. Every open dimension is
    tried at two sizes, three invokes in a row each, in one LiteRT interpreter.

    What both keep between calls is kept in both. What the file alone keeps, or takes and gives, the source cannot
    know: its calls are compared with first calls of the file, and rows of calls on XLA with rows of calls in LiteRT.

    Custom operators run in no interpreter at hand: TensorFlow computes them on the way, and LiteRT all the others. The
    report says so.
    """
    data = lite.to_bytes()
    reads_back(lite.program, data)
    with _restored(reference):
        comparison = _Comparison(lite, reference, data, tolerance_of(lite.program))
        for drawn in _all_draws(lite, seed):
            comparison.with_reference(*drawn)
    if not comparison.in_a_row:
        comparison.start_anew()
        for drawn in _all_draws(lite, seed):
            comparison.xla_with_litert(*drawn)
    lite.report.notes += [note for note in comparison.notes() if note not in lite.report.notes]
    worst = comparison.worst
    return [Difference(s, o, pair, error, comparison.tolerance) for (s, o, pair), error in worst.items()]


@dataclass
class _Comparison:
    """The runners of one verification, and the worst differences so far, by signature, output and pair."""

    lite: Runnable
    reference: Runnable
    data: bytes
    tolerance: float
    worst: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        source = self.reference.imported.program if self.reference.imported else self.reference.program
        kept, known = ({s.name for s in p.states()} for p in (self.lite.program, source))
        self._first = first_states(source)
        self._lite_keeps_more = not kept <= known
        self._source_keeps_more = not known <= kept
        self._stream = self.reference.stream(quick=True)
        self.start_anew()
        if self.reference.imported is not None:
            set_variables(self.reference.imported, self._first)

    @property
    def in_a_row(self) -> bool:
        """Whether the file keeps, and takes, just what the source does: then one row of calls says everything."""
        exposed = any(s.exposed for s in self.lite.program.signatures)
        return not (self._lite_keeps_more or self._source_keeps_more or exposed)

    def start_anew(self) -> None:
        """Let the file keep nothing of the calls so far."""
        self._xla = self.lite.stream(quick=True)
        custom = has_custom(self.lite.program)
        self._litert = None if custom else LiteRt(self.data)
        self._around = AroundCustom(self.lite.program) if custom and can_be_cut(self.lite.program) else None
        self._before: list[tuple[str, Outputs]] = []

    def with_reference(self, signature: Signature, drawn: Mapping[str, np.ndarray]) -> None:
        """One call of everything; where the file and the source do not keep the same, as if it were the first."""
        if self._lite_keeps_more:
            self.start_anew()
        if not self.in_a_row:
            self._start_source_anew()
            types = {n: v.type for n, v in zip(signature.input_names, signature.graph.inputs, strict=False)}
            given = {n: a for n, a in drawn.items() if n not in {s.name for s in signature.exposed}}
            drawn = {**given, **initial_values(signature.exposed, types, given)}
        inputs, wanted = _accepted(lambda inputs: self._wanted(signature.key, inputs), drawn, signature)
        name = "reference" if self.reference.imported is None else "tensorflow"
        states = self._xla.states
        xla = {**self._xla.run(inputs, signature.key), **_as_outputs(self._xla.states)}
        call = Call(signature.key, inputs, states, tuple(self._before))
        if self.in_a_row:
            wanted = {**wanted, **_as_outputs(self._held())}
        wanted = {n: v for n, v in wanted.items() if n not in _by_chance(signature)}
        self._compare(call, f"{name}/xla", xla, wanted)
        self._compare_litert(call, name, wanted)
        self._before.append((signature.key, inputs))

    def xla_with_litert(self, signature: Signature, drawn: Mapping[str, np.ndarray]) -> None:
        """One more call in a row on XLA and in LiteRT, with the inputs as drawn."""
        call = Call(signature.key, drawn, self._xla.states, tuple(self._before))
        wanted = {n: v for n, v in self._xla.run(drawn, signature.key).items() if n not in _by_chance(signature)}
        self._compare_litert(call, "xla", wanted)
        self._before.append((signature.key, drawn))

    def _compare_litert(self, call: Call, name: str, wanted: Outputs) -> None:
        """Compare LiteRT's outputs with those of `name`; what it computes around custom operators with XLA's."""
        if self._litert is not None:
            self._compare(call, f"{name}/litert", self._litert.run(call.key, call.inputs), wanted)
        elif self._around is not None:
            self._compare(call, "xla/litert", *self._around.run(call.key, call.inputs, call.states))

    def notes(self) -> Iterator[str]:
        """What was not compared."""
        chance = sorted({n for s in self.lite.program.signatures for n in _by_chance(s)})
        if chance:
            yield f"{', '.join(chance)} depend on random numbers, which were not compared with the source's"
        if self._litert is not None:
            return
        yield "the custom operators did not run: TensorFlow computed them where the graph was compared with the source"
        if self._around is None:
            yield "LiteRT did not run the file: custom operators stand in a loop or branch"
        else:
            yield "LiteRT ran the file without its custom operators, and was given their results"

    def _start_source_anew(self) -> None:
        self._stream.reset()
        if self.reference.imported is not None:
            set_variables(self.reference.imported, self._first)

    def _wanted(self, key: str, inputs: Mapping[str, np.ndarray]) -> Outputs:
        if self.reference.imported is None:
            return self._stream.run(inputs, key)
        return run_tensorflow(self.reference.imported.functions[key], inputs)

    def _held(self) -> Outputs:
        """The states of the source by now, by name, in the file's shapes: it has no scalar ones."""
        held = self._stream.states
        if self.reference.imported is not None:
            held = {name: variable.numpy() for name, variable in self.reference.imported.variables.items()}
        shapes = {s.name: s.initial.array.shape for s in self.lite.program.states()}
        return {name: np.reshape(value, shapes[name]) for name, value in held.items() if name in shapes}

    def _compare(self, call: Call, pair: str, found: Outputs, wanted: Outputs) -> None:
        for output in (name for name in wanted if name in found):
            error = relative_error(np.asarray(found[output]), np.asarray(wanted[output]))
            place = (call.key, output, pair)
            self.worst[place] = max(error, self.worst.get(place, 0.0))
            if not error <= self.tolerance:
                first = self._first_difference(call, pair)
                raise _failure(call.key, output, pair, error, self.tolerance, first)

    def _first_difference(self, call: Call, pair: str) -> Place | None:
        if self._litert is None and pair.endswith("/litert"):  # the name of what differs says where
            return None
        return first_difference(self.lite, self.reference, call, pair, self.data, self.tolerance)


def _by_chance(signature: Signature) -> frozenset[str]:
    """The outputs and states that differ from call to call, by name."""
    names = (*signature.output_names, *_as_outputs({s.name: s.initial.array for s in signature.states}))
    return frozenset(names[i] for i in results_by_chance(signature.graph))


def _as_outputs(states: Outputs) -> dict[str, np.ndarray]:
    """States among outputs: under a name that no output has."""
    return {f"state {name}": value for name, value in states.items()}


@contextmanager
def _restored(reference: Runnable) -> Iterator[None]:
    with nullcontext() if reference.imported is None else variables_restored(reference.imported):
        yield


def reads_back(program: Program, data: bytes) -> None:
    """Raise VerifyFailed, naming the first equation, where the bytes do not say what the program says."""
    loaded = {s.key: s for s in load_tflite(data).signatures}
    for signature in program.signatures:
        states = [[(s.name, s.initial.digest) for s in of.states] for of in (signature, loaded[signature.key])]
        if states[0] != states[1]:
            raise VerifyFailed(
                f"the file does not keep the states of signature {signature.key!r}", expected=states[0], found=states[1]
            )
        texts = [_comparable(s.graph) for s in (signature, loaded[signature.key])]
        for written, read in zip_longest(*texts):
            if written != read:
                raise VerifyFailed(
                    f"the file does not read back as signature {signature.key!r} was written",
                    expected=written,
                    found=read,
                    remedy="report this model",
                )


def _comparable(graph: Graph) -> list[str]:
    """The text without what a file does not hold: sources, names, known values, and which open sizes are equal."""
    symbols = {
        name for inner in all_graphs(graph) for v in inner.inputs for d in v.type.shape for name in symbols_of(d)
    }
    symbols |= {n for e in all_eqns(graph) for out in e.outputs for d in out.type.shape for n in symbols_of(d)}
    anonymous = rename_dims(graph, {name: symbol("N") for name in symbols})
    return format_graph(replace(anonymous, name=""), sources=False, known=False).splitlines()


def _distinct(program: Program) -> Iterator[Signature]:
    seen: set[int] = set()
    for signature in program.signatures:
        if id(signature.graph) not in seen:
            seen.add(id(signature.graph))
            yield signature


def _all_draws(lite: Runnable, seed: int) -> Iterator[tuple[Signature, dict[str, np.ndarray]]]:
    promises = lite.report.promises
    for signature in _distinct(lite.program):
        for sizes in size_choices(signature.graph):
            for number, drawn in enumerate(draws(signature, sizes, seed)):
                drawn = with_keys(signature, drawn, seed + number)
                yield signature, keep_promises(signature, drawn, promises, seed + number)


def _accepted(
    oracle: Run, drawn: Mapping[str, np.ndarray], signature: Signature
) -> tuple[Mapping[str, np.ndarray], Outputs]:
    """Inputs that the reference takes, and its outputs: the drawn ones.

    Else with keys of the tables that they are looked up in alone, or with integers (ids, sizes) of 0 and 1.
    """
    try:
        return drawn, oracle(drawn)
    except VerifyFailed:
        if vocabularies(signature.graph):
            known = with_keys(signature, drawn, len(drawn), every=True)
            return known, oracle(known)
        small = {name: a % 2 if a.dtype.kind in "iu" else a for name, a in drawn.items()}
        if all(small[name] is a for name, a in drawn.items()):
            raise
        return small, oracle(small)


def _failure(key: str, output: str, pair: str, error: float, tolerance: float, place: Place | None) -> VerifyFailed:
    return VerifyFailed(
        f"output {output!r} of signature {key!r} differs ({pair})",
        where=place.place if place else None,
        expected=f"max|a-b| / max|b| of at most {tolerance:g}",
        found=f"{error:.3g} (XLA on {jax.default_backend()})",
        remedy="report this model; verify=False writes the file all the same",
        context=f"{place.text}  differs by {place.error:.3g}" if place else None,
    )
