"""Vectors with other signs, or in another basis of equal values, are alike; others are not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfuse
from jfuse.verification.compare.vectors import SourceVectors, with_signs_of

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


def test_left_and_right_vectors_turn_together() -> None:
    vectors = SourceVectors([BASIS], VALUES)
    assert vectors.same_signs([BASIS * SIGNS, BASIS[..., ::-1, :] * SIGNS], [BASIS, BASIS[..., ::-1, :]])
    assert not vectors.same_signs([BASIS * SIGNS, BASIS], [BASIS, BASIS])
    of_rank_one = SourceVectors([BASIS], np.array([[4.0, 0, 0, 0]] * 2, np.float32))
    assert of_rank_one.same_signs([BASIS * SIGNS, BASIS], [BASIS, BASIS])


def svd_of(signature: Any, matrices: np.ndarray) -> dict[str, np.ndarray]:
    u, s, v = np.linalg.svd(matrices, full_matrices=False)
    return dict(zip(signature.output_names, (u, s, v), strict=True))


def test_one_side_turned_alone_is_wrong() -> None:
    spec = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    program = jfuse.lower(jfuse.load(lambda x: jnp.linalg.svd(x, full_matrices=False), [spec])).program
    signature = program.signatures[0]
    outputs = svd_of(signature, RNG.normal(size=(2, 3)).astype(np.float32))
    u, _, v = signature.output_names
    both = outputs | {u: outputs[u] * SIGNS[:2], v: outputs[v] * SIGNS[:2, None]}
    np.testing.assert_array_equal(with_signs_of(outputs, both, signature)[v], outputs[v])
    alone = with_signs_of(outputs, outputs | {v: both[v]}, signature)
    assert not np.allclose(alone[v], outputs[v])


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
