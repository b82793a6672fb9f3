"""Convolutions as sums of shifted images and as matrix products, against XLA's convolution in f64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jfuse.ir.compilation import quick_jit
from jfuse.kernels import ops
from jfuse.kernels.core.memory_layout import choosing_layouts
from jfuse.kernels.nn.conv import convolved
from jfuse.kernels.nn.conv_without_xla import convolved_as_product, depthwise_shifted

_EACH, _DENSE = ("NHWC", "IHWO", "NHWC"), ("NHWC", "OHWI", "NHWC")
RNG = np.random.default_rng(2)
TOLERANCE = 1e-13  # sums of up to 49 products of values up to 4, in f64
ROWS = [
    ((1, 1), (1, 1), (1, 1)),
    ((3, 3), (1, 1), (1, 1)),
    ((3, 3), (2, 2), (1, 1)),
    ((2, 3), (3, 1), (1, 2)),
    ((3, 2), (1, 1), (2, 3)),
    ((7, 7), (2, 1), (1, 1)),
    ((1, 5), (1, 2), (1, 1)),
]


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


@pytest.mark.parametrize(("window", "strides", "dilations"), ROWS)
def test_against_convolutions(window: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]) -> None:
    images, image = draw(2, 9, 8, 4), draw(2, 9, 8, 1)
    each, several, dense = draw(1, *window, 4), draw(1, *window, 12), draw(5, *window, 1)

    def both(images: Any, image: Any, each: Any, several: Any, dense: Any) -> Any:
        for padding in ("SAME", "VALID"):
            how = padding, strides, dilations
            for weights in (each, several):
                yield depthwise_shifted(images, weights, *how), convolved(images, weights, *how, 4, _EACH)
            yield convolved_as_product(image, dense, *how), convolved(image, dense, *how, 1, _DENSE)

    with jax.enable_x64(True):
        results = quick_jit(lambda *args: list(both(*args)))(images, image, each, several, dense)
    assert len(results) == 6
    for found, wanted in results:
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(("window", "inputs", "outputs"), [((1, 1), 12, 40), ((3, 3), 3, 24), ((2, 3), 6, 3)])
def test_few_products_are_added_up(window: tuple[int, int], inputs: int, outputs: int) -> None:
    images, weights = draw(3, 1, 9, 8, inputs), draw(outputs, *window, inputs)
    how = "SAME", (2, 1), (1, 1)

    def found(images: Any, weights: Any) -> Any:
        return jax.vmap(lambda image: convolved_as_product(image, weights, *how))(images)

    with jax.enable_x64(True), choosing_layouts(True):
        assert "dot_general" not in str(jax.make_jaxpr(found)(images, weights))
        results = quick_jit(found)(images, weights)
        wanted = convolved(images[:, 0], weights, *how, 1, _DENSE)
    np.testing.assert_allclose(results[:, 0], wanted, rtol=0, atol=TOLERANCE)


def test_a_layout_changes_no_result_and_is_chosen_only_where_asked() -> None:
    images, weights = draw(3, 1, 9, 8, 4), draw(1, 3, 3, 4)

    def found(images: Any) -> Any:
        return jax.vmap(lambda image: depthwise_shifted(image, weights, "SAME", (1, 2), (1, 1)))(images)

    with jax.enable_x64(True):
        assert "layout" not in str(jax.make_jaxpr(found)(images))
        plain = quick_jit(found)(images)
        with choosing_layouts(True):
            assert "layout" in str(jax.make_jaxpr(lambda x: found(x))(images))
            chosen = quick_jit(lambda x: found(x))(images)
    np.testing.assert_allclose(chosen, plain, rtol=0, atol=TOLERANCE)


def test_what_is_left_to_xla() -> None:
    image = np.zeros((1, 12, 12, 8), np.float32)
    plain = "SAME", (1, 1), (1, 1)
    assert depthwise_shifted(image.astype(np.float16), np.zeros((1, 3, 3, 8), np.float16), *plain) is None
    assert depthwise_shifted(image, np.zeros((1, 9, 9, 8), np.float32), *plain) is None
    assert depthwise_shifted(image[:, :2], np.zeros((1, 3, 3, 8), np.float32), "VALID", (1, 1), (1, 1)) is None
    assert convolved_as_product(image, np.zeros((4, 3, 3, 8), np.float32), *plain) is None  # sums of 72 terms
    assert convolved_as_product(image, np.zeros((4, 1, 1, 4), np.float32), *plain) is None  # two groups
    assert convolved_as_product(image, np.zeros((4, 1, 1, 8), np.float32), *plain) is not None


def test_a_depthwise_convolution_differentiates_and_maps() -> None:
    x, weights = jnp.asarray(draw(3, 1, 5, 5, 2), jnp.float32), jnp.asarray(draw(1, 3, 3, 2), jnp.float32)

    def total(image: jax.Array, w: jax.Array) -> jax.Array:
        options = {"padding": "SAME", "stride_w": 1, "stride_h": 1, "depth_multiplier": 1}
        return jnp.sum(ops.depthwise_conv_2d(image, w, None, **options) ** 2)

    each = quick_jit(jax.vmap(jax.grad(total, 1), (0, None)))(x, weights)
    together = quick_jit(jax.grad(lambda w: total(jnp.reshape(x, (3, 5, 5, 2)), w)))(weights)
    np.testing.assert_allclose(each.sum(0), together, rtol=1e-4)


def test_convolutions_of_open_sizes_are_exported() -> None:
    b, i, o = jax.export.symbolic_shape("b, i, o")
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((b, 5, 4, i), (o, 1, 1, i), (o,))]
    options = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
    exported = jax.export.export(jax.jit(lambda x, w, c: ops.conv_2d(x, w, c, **options)))(*shapes)
    x, weights, bias = (draw(*shape).astype(np.float32) for shape in ((2, 5, 4, 3), (6, 1, 1, 3), (6,)))
    found = exported.call(x, weights, bias)
    np.testing.assert_allclose(found, x @ weights[:, 0, 0].T + bias, rtol=0, atol=1e-5)  # f32 sums of three products
