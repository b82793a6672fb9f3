"""A converted model in LiteRT, invoke after invoke, against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from jfuse.frontends.tf_function import TfSignature
from jfuse.ir.graph import Signature
from jfuse.model import Model
from jfuse.verification.inputs import draw, integer_limits, size_choices
from jfuse.verification.measure import relative_error
from jfuse.verification.oracles import LiteRt
from jfuse.verification.oracles_tensorflow import run_tensorflow

TOLERANCE = 1e-5  # f32 sums of up to 300 terms, through a dozen steps of a recurrence
_SIZES = (3, 1, 5, 2)  # of every open dimension in turn: they grow and shrink

Arrays = Mapping[str, np.ndarray]


def check_invokes(lite: Model, draw_inputs: Callable[[int], Arrays] | None = None) -> None:
    """Invokes in a row of one interpreter answer like TensorFlow, with and without delegates, for every signature.

    draw_inputs: from a seed the inputs by name; random ones by default.
    """
    data = lite.to_bytes()
    assert lite.imported is not None
    for delegates in (True, False):
        runtime = LiteRt(data, delegates=delegates)
        for signature in lite.program.signatures:
            _check_signature(runtime, signature, lite.imported.functions[signature.key], draw_inputs)


def _check_signature(
    runtime: LiteRt, signature: Signature, function: TfSignature, draw_inputs: Callable[[int], Arrays] | None
) -> None:
    answers: list[Arrays] = []
    for seed, sizes in enumerate(_all_sizes(signature)):
        inputs = draw_inputs(seed) if draw_inputs else _random(signature, sizes, seed)
        wanted = run_tensorflow(function, inputs)
        found = runtime.run(signature.key, inputs)
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            assert relative_error(found[name], value) <= TOLERANCE, f"{name}, invoke {seed}, sizes {sizes}"
        answers.append(wanted)
    # A model that answers the same whatever it is given proves nothing.
    first, *others = answers
    assert all(not _close(first, other) for other in others)


def _all_sizes(signature: Signature) -> Iterator[dict[str, int]]:
    names = sorted(size_choices(signature.graph)[0])
    for i in range(len(_SIZES) if names else 3):
        yield {name: _SIZES[(i + k) % len(_SIZES)] for k, name in enumerate(names)}


def _random(signature: Signature, sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    limits = integer_limits(signature.graph)
    return {
        name: draw(rng, var.type, sizes, 1.0, limits.get(var, 10))
        for name, var in zip(signature.input_names, signature.graph.inputs, strict=True)
    }


def _close(a: Arrays, b: Arrays) -> bool:
    return all(a[n].shape == b[n].shape and relative_error(a[n], b[n]) < 1000 * TOLERANCE for n in a)
