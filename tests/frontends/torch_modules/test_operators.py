"""Each operator's rule: LiteRT answers as PyTorch does, at two sizes of what is open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.running.interpreter import LiteRt

torch = pytest.importorskip("torch")

from tests.frontends.torch_modules import rows, rows_in_jax  # noqa: E402

FAMILIES = {
    "elementwise": rows.ELEMENTWISE,
    "activations": rows.ACTIVATIONS,
    "shapes": rows.SHAPES,
    "reductions": rows.REDUCTIONS,
    "products": rows.PRODUCTS,
    "convolutions": rows.CONVOLUTIONS,
    "pools": rows.POOLS,
    "resizes": rows.RESIZES,
    "normalizations": rows.NORMALIZATIONS,
    "indexing": rows.INDEXING,
    "detection": rows.DETECTION,
    "trained ranges": rows.TRAINED,
    "distinct": rows.DISTINCT,
    "signals": rows.SIGNALS,
    "in jax": rows_in_jax.IN_JAX,
}


def drawn(spec: Any, size: int, rng: np.random.Generator) -> np.ndarray:
    shape = [d if isinstance(d, int) else size for d in spec.shape]
    if spec.dtype == np.float32:
        return rng.normal(size=shape).astype(np.float32)
    return rng.integers(0, 3, shape).astype(spec.dtype)


def failure(row: rows.Row) -> str | None:
    """What is wrong with a row; None where nothing is."""
    name, function, specs = row
    lite = jfuse.lower(jfuse.load(rows.Of(function), specs))
    interpreter = LiteRt(lite.to_bytes(), delegates=True)
    signature = lite.signature()
    rng = np.random.default_rng(1)
    for size in (6, 7):
        args = [drawn(spec, size, rng) for spec in specs]
        found = interpreter.run(signature.key, dict(zip(signature.input_names, args, strict=True)))
        leaves = torch.utils._pytree.tree_leaves(function(*map(torch.from_numpy, args)))
        wanted = [leaf.numpy() for leaf in leaves if leaf is not None]
        for output, value in zip(signature.output_names, wanted, strict=True):
            try:
                assert found[output].dtype == value.dtype
                np.testing.assert_allclose(found[output], value, rtol=2e-5, atol=2e-5, err_msg=f"{name} at {size}")
            except AssertionError as error:
                return f"{name}: {error}"
    return None


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_litert_answers_as_pytorch(family: str) -> None:
    failures = []
    for row in FAMILIES[family]:
        try:
            found = failure(row)
        except jfuse.JfuseError as error:
            found = f"{row[0]}: {type(error).__name__}: {error}"
        failures += [found] if found else []
    assert not failures, "\n".join(failures)
