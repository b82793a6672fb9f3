"""Vectors with other signs, or in another basis of equal values, are alike; others are not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfuse
from jfuse.verification.compare.vectors import SourceVectors

RNG = np.random.default_rng(0)
BASIS = np.linalg.qr(RNG.normal(size=(2, 4, 4)))[0].astype(np.float32)
VALUES = np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 2.0, 4.0]], np.float32)
SIGNS = np.array([1, -1, -1, 1], np.float32)


def like(own: np.ndarray, *candidates: np.ndarray) -> np.ndarray | None:
    return SourceVectors(candidates, VALUES).like(own, 1e-5)


def test_other_signs_are_alike() -> None:
    assert like(BASIS * SIGNS, BASIS) is BASIS
    assert like(BASIS * SIGNS, BASIS[::-1], BASIS) is BASIS


def test_other_vectors_are_not() -> None:
    assert like(BASIS[..., ::-1], BASIS) is None
    assert like(BASIS + np.float32(1e-3), BASIS) is None


@pytest.mark.parametrize("sample", [0, 1])
def test_equal_values_have_any_basis(sample: int) -> None:
    turned = BASIS.copy()
    turned[sample, :, 1] = (BASIS[sample, :, 1] + BASIS[sample, :, 2]) / np.sqrt(2)
    turned[sample, :, 2] = (BASIS[sample, :, 1] - BASIS[sample, :, 2]) / np.sqrt(2)
    assert (like(turned, BASIS) is None) == (sample == 0)


@pytest.mark.slow
def test_eigenvectors_convert() -> None:
    spec = jax.ShapeDtypeStruct((2, 3, 3), jnp.float32)
    result = jfuse.convert(lambda x: jnp.linalg.eigh(x + x.mT), [spec])
    x: Any = RNG.normal(size=(2, 3, 3)).astype(np.float32)
    values, vectors = result(x).values()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x + x.transpose(0, 2, 1)), atol=1e-5)
    product = (vectors * values[:, None]) @ vectors.transpose(0, 2, 1)
    np.testing.assert_allclose(product, x + x.transpose(0, 2, 1), atol=1e-5)
    assert np.all(np.einsum("bij,i->bj", vectors, 0.6 ** np.arange(3)) >= 0)
