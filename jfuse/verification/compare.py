"""Whole models against their source: TensorFlow, the graph on XLA, and the bytes in LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Protocol

import jax
import numpy as np

from jfuse.errors import VerifyFailed
from jfuse.frontends.sources import Imported
from jfuse.frontends.tflite_file import load_tflite
from jfuse.ir.dims import symbol, symbols_of
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.ir.text import format_graph
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns, all_graphs, rename_dims
from jfuse.report import Difference
from jfuse.verification.bisect import Place, first_difference
from jfuse.verification.inputs import draws, size_choices
from jfuse.verification.measure import relative_error
from jfuse.verification.oracles import LiteRt
from jfuse.verification.oracles_tensorflow import run_tensorflow

Outputs = Mapping[str, np.ndarray]
Run = Callable[[Mapping[str, np.ndarray]], Outputs]


class Runnable(Protocol):
    """What can be compared: a model of jfuse, with the TensorFlow source that it came from or None."""

    program: Program
    imported: Imported | None

    def to_bytes(self) -> bytes:
        """The file."""

    def run(self, inputs: Mapping[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """The outputs of one signature on XLA."""


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
    """
    data = lite.to_bytes()
    reads_back(lite.program, data)
    interpreter = LiteRt(data)
    worst: dict[tuple[str, str, str], float] = {}
    tolerance = tolerance_of(lite.program)
    for signature in _distinct(lite.program):
        oracle, name = _oracle(reference, signature.key)
        runs: dict[str, Run] = {
            f"{name}/xla": partial(lite.run, key=signature.key),
            f"{name}/litert": partial(interpreter.run, signature.key),
        }
        for drawn in _all_draws(signature, seed):
            inputs, wanted = _accepted(oracle, drawn)
            for pair, run in runs.items():
                found = run(inputs)
                for output in signature.output_names:
                    error = relative_error(np.asarray(found[output]), np.asarray(wanted[output]))
                    key = (signature.key, output, pair)
                    worst[key] = max(error, worst.get(key, 0.0))
                    if not error <= tolerance:
                        place = first_difference(lite, reference, signature.key, pair, inputs, data, tolerance)
                        raise _failure(signature.key, output, pair, error, tolerance, place)
    return [Difference(s, o, pair, error, tolerance) for (s, o, pair), error in worst.items()]


def reads_back(program: Program, data: bytes) -> None:
    """Raise VerifyFailed, naming the first equation, where the bytes do not say what the program says."""
    loaded = {s.key: s for s in load_tflite(data).signatures}
    for signature in program.signatures:
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


def _all_draws(signature: Signature, seed: int) -> Iterator[dict[str, np.ndarray]]:
    for sizes in size_choices(signature.graph):
        yield from draws(signature, sizes, seed)


def _accepted(oracle: Run, drawn: Mapping[str, np.ndarray]) -> tuple[Mapping[str, np.ndarray], Outputs]:
    """Inputs that the reference takes, and its outputs: the drawn ones, else with integers (ids, sizes) of 0 and 1."""
    try:
        return drawn, oracle(drawn)
    except VerifyFailed:
        small = {name: a % 2 if a.dtype.kind in "iu" else a for name, a in drawn.items()}
        if all(small[name] is a for name, a in drawn.items()):
            raise
        return small, oracle(small)


def _oracle(reference: Runnable, key: str) -> tuple[Run, str]:
    if reference.imported is None:
        return lambda inputs: reference.run(inputs, key), "reference"
    function = reference.imported.functions[key]
    return lambda inputs: run_tensorflow(function, inputs), "tensorflow"


def _failure(key: str, output: str, pair: str, error: float, tolerance: float, place: Place | None) -> VerifyFailed:
    return VerifyFailed(
        f"output {output!r} of signature {key!r} differs ({pair})",
        where=place.place if place else None,
        expected=f"max|a-b| / max|b| of at most {tolerance:g}",
        found=f"{error:.3g} (XLA on {jax.default_backend()})",
        remedy="report this model; verify=False writes the file all the same",
        context=f"{place.text}  differs by {place.error:.3g}" if place else None,
    )
