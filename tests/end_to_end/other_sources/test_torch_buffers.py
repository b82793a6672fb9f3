"""Buffers that modules of PyTorch write in forward are states: LiteRT answers calls in a row as the module does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.running.interpreter import LiteRt

torch: Any = pytest.importorskip("torch")

from tests.frontends.torch_modules.rows import Spec, f32, i64  # noqa: E402
from tests.models.torch_modules.buffers import (  # noqa: E402
    Attention,
    Cleared,
    Layers,
    Mean,
    Ring,
    Scattered,
    Seen,
    SharedNames,
    Stream,
    Viewed,
)

Draw = Callable[[np.random.Generator], list[np.ndarray]]


def normal(*shapes: tuple[int, ...]) -> Draw:
    return lambda rng: [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def scattered(rng: np.random.Generator) -> list[np.ndarray]:
    return [np.array([[0, 1], [2, 3], [3, 0]]), *normal((3, 2))(rng)]


CASES: dict[str, tuple[Callable[[], Any], list[Spec], Draw]] = {
    "ring": (Ring, [f32(1, 3)], normal((1, 3))),
    "convolution": (Stream, [f32(1, 2, 4)], normal((1, 2, 4))),
    "running mean": (Mean, [f32(5, 3)], normal((5, 3))),
    "scatter": (Scattered, [i64(3, 2), f32(3, 2)], scattered),
    "layers": (Layers, [f32(1, 3)], normal((1, 3))),
    "names of others": (SharedNames, [f32(2)], normal((2,))),
    "flags and integers": (Seen, [f32(3)], normal((3,))),
}


def answers(result: Any, calls: list[list[np.ndarray]], mode: str, first: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The first output of calls in a row in LiteRT; in "io" each call gets what the one before gave."""
    signature, interpreter = result.signature(), LiteRt(result.to_bytes(), delegates=True)
    found, held = [], first if mode == "io" else {}
    for args in calls:
        given = dict(zip(signature.input_names, args, strict=False))
        outputs = interpreter.run(signature.key, {**given, **held})
        held = {name: outputs[name] for name in held}
        found.append(outputs[signature.output_names[0]])
    return found


def wanted(module: Any, calls: list[list[np.ndarray]], mode: str) -> list[np.ndarray]:
    """What copies of the module answer."""
    going, found = copy.deepcopy(module), []
    for args in calls:
        one = copy.deepcopy(module) if mode == "reset" else going
        with torch.no_grad():
            (result,) = torch.utils._pytree.tree_leaves(one(*map(torch.from_numpy, args)))
        found.append(result.clone().numpy())
    return found


@pytest.mark.parametrize("mode", ["source", "reset", "io"])
@pytest.mark.parametrize(
    "name", [n if n in ("ring", "layers") else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_calls_in_a_row(name: str, mode: Any) -> None:
    make, specs, draw = CASES[name]
    module = make().eval()
    before = copy.deepcopy(module.state_dict(keep_vars=True))
    result = jfuse.convert(module, specs, state=mode)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items()), "it wrote to the module"
    rng = np.random.default_rng(3)
    calls = [draw(rng) for _ in range(5)]
    first = {s.name: s.initial.array for s in result.signature().exposed}
    for found, value in zip(answers(result, calls, mode, first), wanted(module, calls, mode), strict=True):
        np.testing.assert_allclose(found, value, rtol=2e-5, atol=2e-5)  # sums of a few terms in f32
    assert bool(result.report.kept) == (mode != "reset")


def test_signatures_share_a_cache_and_one_reads_it_alone() -> None:
    cache = Attention().eval()
    modules = {"prefill": cache, "decode": cache, "clear": Cleared(cache).eval(), "view": Viewed(cache).eval()}
    specs = {"prefill": [f32(1, 5, 4), i64(5)], "decode": [f32(1, 1, 4), i64(1)], "clear": [f32(1)], "view": [f32(4)]}
    result = jfuse.convert(modules, specs)
    assert [state.name for state in result.program.states()] == ["keys", "values"]
    interpreter, rng = LiteRt(result.to_bytes(), delegates=True), np.random.default_rng(0)
    eager = copy.deepcopy(modules)
    order = ["prefill", *["decode", "view"] * 4, "clear", "view", "prefill", "decode"]
    at = 0
    for key in order:
        args: list[np.ndarray] = [rng.normal(size=specs[key][0].shape).astype(np.float32)]
        if key in ("prefill", "decode"):
            at = 0 if key == "prefill" else at
            count = specs[key][1].shape[0]
            args.append(np.arange(at, at + count))
            at += count
        with torch.no_grad():
            value = eager[key](*map(torch.from_numpy, args)).numpy()
        signature = result.signature(key)
        found = interpreter.run(key, dict(zip(signature.input_names, args, strict=True)))["output_0"]
        np.testing.assert_allclose(found, value, rtol=2e-5, atol=2e-5, err_msg=key)


def test_an_exported_program_has_the_same_states() -> None:
    with torch.no_grad():
        program = torch.export.export(Ring().eval(), (torch.zeros(1, 3),), strict=False)
    result = jfuse.convert(program, state="source")
    assert [state.name for state in result.program.states()] == ["ring", "at"]


def test_an_input_that_is_written_is_refused() -> None:
    class Doubled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            """Writes to what it is given."""
            x *= 2
            return x + 1

    with pytest.raises(jfuse.ImportFailed, match="writes to its input 'x'"):
        jfuse.load(Doubled().eval(), [f32(3)])
