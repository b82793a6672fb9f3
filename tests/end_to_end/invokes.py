"""A converted model in LiteRT, invoke after invoke, against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from jfuse.base.measure import relative_error
from jfuse.frontends.tensorflow.signature import TfSignature
from jfuse.ir.graph import Signature
from jfuse.model import Model
from jfuse.proof.inputs import draw, size_choices
from jfuse.proof.ranges import integer_limits
from jfuse.running.file_process import CompiledModelProcess
from jfuse.running.interpreter import LiteRt
from jfuse.verification.runners.in_tensorflow import run_tensorflow

TOLERANCE = 1e-5  # f32 sums of up to 300 terms, through a dozen steps of a recurrence
_SIZES = (3, 1, 5, 2)  # of every open dimension in turn: they grow and shrink

Arrays = Mapping[str, np.ndarray]
Draw = Callable[[int], Arrays]


def check_invokes(
    lite: Model,
    draw_inputs: Draw | None = None,
    tolerance: float = TOLERANCE,
    *,
    reset: bool = False,
    compiled: bool = False,
) -> None:
    """Invokes in a row of one interpreter answer like TensorFlow, with and without delegates, for every signature.

    What the source keeps in variables goes on from invoke to invoke, and starts anew for each interpreter; with `reset`
    for each invoke. draw_inputs: from a seed the inputs by name; random ones by default. compiled: CompiledModel
    does so, too.
    """
    data = lite.to_bytes()
    assert lite.imported is not None
    drawn = {s.key: _drawn(s, draw_inputs) for s in lite.program.signatures}
    wanted = {key: _tensorflow(lite.imported.functions[key], inputs, reset) for key, inputs in drawn.items()}
    for delegates in (True, False):
        runtime = LiteRt(data, delegates=delegates)
        for key, inputs in drawn.items():
            _check_answers([(x, runtime.run(key, x)) for x in inputs], wanted[key], tolerance)
    if compiled:
        with CompiledModelProcess(data, lite.program) as process:
            for key, inputs in drawn.items():
                _check_answers([(x, process.run(dict(x), key)) for x in inputs], wanted[key], tolerance)


@contextmanager
def variables_restored(signature: TfSignature) -> Iterator[tuple[Any, ...]]:
    """The variables of a function; what is written to them within does not last."""
    variables = tuple(signature.function.variables)
    before = [v.numpy() for v in variables]
    yield variables
    for variable, value in zip(variables, before, strict=True):
        variable.assign(value)


def _drawn(signature: Signature, draw_inputs: Draw | None) -> list[Arrays]:
    sizes = _all_sizes(signature)
    return [draw_inputs(i) if draw_inputs else random_inputs(signature, s, i) for i, s in enumerate(sizes)]


def _tensorflow(function: TfSignature, drawn: Sequence[Arrays], reset: bool) -> list[Arrays]:
    if not reset:
        with variables_restored(function):
            return [run_tensorflow(function, inputs) for inputs in drawn]
    return [answer for inputs in drawn for answer in _tensorflow(function, [inputs], False)]


def _check_answers(found: Sequence[tuple[Arrays, Arrays]], wanted: Sequence[Arrays], tolerance: float) -> None:
    for number, ((inputs, results), known) in enumerate(zip(found, wanted, strict=True)):
        assert results.keys() == known.keys()
        for name, value in known.items():
            error = relative_error(results[name], value)
            shapes = {key: array.shape for key, array in inputs.items()}
            assert error <= tolerance, f"{name}, invoke {number}, {shapes}: error {error:.1e}"
    # A model that answers the same whatever it is given proves nothing.
    first, *others = wanted
    assert all(not _close(first, other) for other in others)


def _all_sizes(signature: Signature) -> Iterator[dict[str, int]]:
    names = sorted(size_choices(signature.graph)[0])
    for i in range(len(_SIZES) if names else 3):
        yield {name: _SIZES[(i + k) % len(_SIZES)] for k, name in enumerate(names)}


def random_inputs(signature: Signature, sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    """Normal floats, and integers that index what they index, by name."""
    rng = np.random.default_rng(seed)
    limits = integer_limits(signature.graph)
    return {
        name: draw(rng, var.type, sizes, 1.0, limits.get(var, 10))
        for name, var in zip(signature.input_names, signature.graph.inputs, strict=False)  # states follow
    }


def _close(a: Arrays, b: Arrays) -> bool:
    return all(a[n].shape == b[n].shape and relative_error(a[n], b[n]) < 1000 * TOLERANCE for n in a)
