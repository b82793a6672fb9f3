"""Each primitive's rule: LiteRT answers as jax does, at two sizes of what is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest

import jfuse
from jfuse.ir.dims import substitute_dim, symbols_of
from jfuse.running.interpreter import LiteRt
from tests.frontends.jax_functions import rows

FAMILIES = {
    "elementwise": rows.ELEMENTWISE,
    "shapes": rows.SHAPES,
    "reductions": rows.REDUCTIONS,
    "products": rows.PRODUCTS,
    "convolutions": rows.CONVOLUTIONS,
    "indexing": rows.INDEXING,
    "of others": rows.OF_OTHERS,
    "structure": rows.STRUCTURE,
}


def drawn(spec: Any, size: int, rng: np.random.Generator) -> np.ndarray:
    shape = [int(substitute_dim(d, dict.fromkeys(symbols_of(d), size))) for d in spec.shape]
    if spec.dtype == np.float32:
        return rng.normal(size=shape).astype(np.float32)
    return rng.integers(0, 3, shape).astype(spec.dtype)


def drawn_and_wanted(family: Sequence[rows.Row]) -> dict[str, list[tuple[Any, Any]]]:
    """By row, the arguments at two sizes and what jax answers: all rows of a family are one program."""
    rng = np.random.default_rng(1)
    args = [[tuple(drawn(spec, size, rng) for spec in specs) for size in (2, 3)] for _, _, specs in family]
    functions = [function for _, function, _ in family]
    wanted = jax.jit(lambda every: [[f(*a) for a in of] for f, of in zip(functions, every, strict=True)])(args)
    names = [name for name, _, _ in family]
    assert len(set(names)) == len(names)
    return {n: list(zip(a, w, strict=True)) for n, a, w in zip(names, args, wanted, strict=True)}


def failure(row: rows.Row, calls: Sequence[tuple[Any, Any]]) -> str | None:
    """What is wrong with a row; None where nothing is.   calls: its arguments and what jax answers"""
    name, function, specs = row
    lite = jfuse.lower(
        jfuse.load(function, specs), forms=jfuse.Forms(precision="source")
    )  # a row rounds to f16 on purpose
    interpreter = LiteRt(lite.to_bytes(), delegates=True)
    signature = lite.signature()
    for args, answer in calls:
        wanted = jax.tree_util.tree_leaves(answer)
        found = interpreter.run(signature.key, dict(zip(signature.input_names, args, strict=True)))
        for output, value in zip(signature.output_names, wanted, strict=True):
            try:
                np.testing.assert_allclose(found[output], value, rtol=2e-5, atol=2e-5, err_msg=f"{name} of {args}")
            except AssertionError as error:
                return str(error)
    return None


SLOW = ("elementwise", "shapes", "reductions", "convolutions", "products", "of others")


@pytest.mark.parametrize("family", [pytest.param(f, marks=pytest.mark.slow) if f in SLOW else f for f in FAMILIES])
def test_litert_answers_as_jax(family: str) -> None:
    failures = []
    calls = drawn_and_wanted(FAMILIES[family])
    for row in FAMILIES[family]:
        try:
            found = failure(row, calls[row[0]])
        except jfuse.JfuseError as error:
            found = f"{row[0]}: {type(error).__name__}: {error}"
        failures += [found] if found else []
    assert not failures, "\n".join(failures)
