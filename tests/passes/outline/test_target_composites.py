"""What Google Tensor has functions of its own for: found by what it computes, run by LiteRT with the same answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flatbuffers import flexbuffers

import jfuse
from jfuse.ir.walk import all_eqns
from jfuse.kernels.control import stablehlo_composite

RMS, GROUP, ATTENTION = "odml.rms_norm", "odml.group_norm", "odml.scaled_dot_product_attention"
RANDOM = np.random.default_rng(3)
GAMMA, BETA = (RANDOM.standard_normal(8).astype(np.float32) for _ in range(2))


def spec(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def converted(function: Callable[..., Any], *shapes: tuple[int, ...], **options: Any) -> jfuse.Model:
    """The model for Google Tensor, verified against jax in LiteRT with and without XNNPACK."""
    specs = {f"x{i}": spec(*shape) for i, shape in enumerate(shapes)}
    wrapped = lambda **inputs: function(*inputs.values())  # noqa: E731
    return jfuse.convert(wrapped, specs, **{"target": "google-tensor", **options})


def composites(model: jfuse.Model) -> list[Any]:
    """The names and attributes of the composites, in pairs."""
    found = [e for g in model.program.graphs() for e in all_eqns(g) if e.op is stablehlo_composite]
    return [(e.params["name"], flexbuffers.Loads(e.params["composite_attributes"])) for e in found]


def rms_by_power(x: Any) -> Any:
    return x / jnp.sqrt(jnp.sum(x**2, -1, keepdims=True) / x.shape[-1] + 1e-5) * GAMMA


def layer_norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-3) * GAMMA + BETA


def layer_norm_by_moments(x: Any) -> Any:
    """As Keras spells it: the variance from squares, factors joined before they meet x."""
    mean, square = x.mean(-1, keepdims=True), (x * x).mean(-1, keepdims=True)
    factor = jax.lax.rsqrt(square - mean * mean + 1e-3) * GAMMA
    return x * factor + (BETA - mean * factor)


def group_norm(groups: int) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        parts = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
        mean, variance = parts.mean((1, 3), keepdims=True), parts.var((1, 3), keepdims=True)
        return ((parts - mean) / jnp.sqrt(variance + 0.01)).reshape(x.shape) * GAMMA + BETA

    return function


@pytest.mark.parametrize(
    ("function", "shape", "name", "attributes"),
    [
        pytest.param(rms_by_power, (2, 6, 8), RMS, {"epsilon": 1e-5}, id="rms"),
        pytest.param(layer_norm, (3, 8), GROUP, {"num_groups": 1, "epsilon": 1e-3, "channel_axis": -1}, id="layer"),
        pytest.param(
            layer_norm_by_moments,
            (2, 6, 8),
            GROUP,
            {"num_groups": 1, "epsilon": 1e-3, "channel_axis": -1},
            id="moments",
        ),
        *(
            pytest.param(
                group_norm(n),
                (2, 5, 3, 8),
                GROUP,
                {"num_groups": n, "epsilon": 0.01, "channel_axis": -1},
                id=f"group{n}",
            )
            for n in (1, 4, 8)
        ),
    ],
)
def test_norms(function: Any, shape: tuple[int, ...], name: str, attributes: dict[str, Any]) -> None:
    ((found, said),) = composites(converted(lambda x: jnp.tanh(function(jnp.sin(x))), shape))
    assert (found, said) == (name, pytest.approx(attributes, rel=1e-6))


def test_what_is_no_norm_stays() -> None:
    def nearly(x: Any) -> Any:
        return x * jax.lax.rsqrt((x * x * (1 + 0.01 * jnp.tanh(x))).mean(-1, keepdims=True) + 1e-5)

    def read_inside(x: Any) -> Any:
        factor = jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return x * factor, factor

    def cut_off(x: Any) -> Any:  # farther than any drawn sample reaches: the proof tells it
        return x * jax.lax.rsqrt(jnp.minimum((x * x).mean(-1, keepdims=True), 1e6) + 1e-5)

    assert composites(converted(nearly, (2, 8))) == []
    assert composites(converted(cut_off, (2, 8))) == []
    assert composites(converted(read_inside, (2, 8))) == []


def heads(q: Any, k: Any, v: Any) -> Any:
    """q, k, v of [batch, time, heads, features]."""
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) * 0.3
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores), v)


def heads_first(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return jax.nn.softmax(q @ jnp.swapaxes(k, 2, 3) / 2 + mask) @ v


Q, K = (2, 5, 3, 4), (2, 6, 3, 4)


def test_attention_of_heads_needs_no_transposes_around_it() -> None:
    model = converted(heads, Q, K, K)
    assert composites(model) == [(ATTENTION, pytest.approx({"scale": 0.3}, rel=1e-6))]
    ((graph,),) = [model.program.entries()]
    assert [e.op.name for e in graph.eqns] == ["stablehlo_composite"]


def test_attention_with_a_mask_that_is_added() -> None:
    model = converted(heads_first, (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4), (2, 1, 5, 6))
    assert composites(model) == [(ATTENTION, {"scale": 0.5})]
    causal = np.where(np.tri(5, 6, dtype=bool), 0, -1e9).astype(np.float32)
    model = converted(lambda q, k, v: heads_first(q, k, v, causal), (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4))
    assert composites(model) == [(ATTENTION, {"scale": 0.5})]


def test_one_head_has_one_sample() -> None:
    """XNNPACK answers wrongly for several (LiteRT 2.3.0): the file would be wrong where it runs on the CPU."""

    def one_head(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.softmax(q @ jnp.swapaxes(k, 1, 2)) @ v

    assert [name for name, _ in composites(converted(one_head, (1, 5, 4), (1, 6, 4), (1, 6, 4)))] == [ATTENTION]
    assert composites(converted(one_head, (2, 5, 4), (2, 6, 4), (2, 6, 4))) == []


def test_a_mask_that_chooses_is_not_a_sum() -> None:
    """Where a hidden score is infinite, the choice hides it, and a sum does not."""

    def chosen(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.where(np.tri(5, 6, dtype=bool), q @ jnp.swapaxes(k, 2, 3), -1e9)
        return jax.nn.softmax(scores) @ v

    assert composites(converted(chosen, (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4))) == []


def marked(x: Any) -> Any:
    def body(x: Any, w: Any, *, epsilon: float) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + epsilon) * w

    return jax.lax.composite(body, RMS)(x, GAMMA, epsilon=1e-6)


def test_marked_functions_keep_their_name_where_the_target_has_it() -> None:
    assert composites(converted(marked, (2, 8))) == [(RMS, pytest.approx({"epsilon": 1e-6}, rel=1e-6))]
    assert composites(converted(marked, (2, 8), target="litert")) == []


@pytest.mark.parametrize("options", [{}, {"target": "litert-gpu"}, {"quantize": "dynamic"}])
def test_composites_of_a_file(options: dict[str, Any], tmp_path: Any) -> None:
    """LiteRT keeps what it runs by the body; others, and quantizers, get the operators."""
    path = converted(lambda x: marked(jnp.sin(x)), (2, 8)).save(tmp_path / "marked.tflite")
    assert jfuse.load(path).to_bytes() == path.read_bytes()
    x = np.linspace(-2, 2, 16, dtype=np.float32).reshape(2, 8)
    wanted = np.sin(x) / np.sqrt((np.sin(x) ** 2).mean(-1, keepdims=True) + 1e-6) * GAMMA
    again = jfuse.convert(path, **options)
    np.testing.assert_allclose(again(x), wanted, rtol=1e-5, atol=1e-6)
    names = Counter(e.op.name for g in again.program.entries() for e in g.eqns)
    assert names["stablehlo_composite"] == (0 if options else 1)
