"""What `jax.export` made is read from its StableHLO, and answers as the function that it was made from."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import jfuse
from jfuse.base.errors import ImportFailed
from tests.frontends.jax_functions.rows import B, T, f32
from tests.frontends.jax_functions.test_primitives import FAMILIES, drawn

W, U = (np.random.default_rng(s).normal(size=(n, 24)).astype(np.float32) / 3 for s, n in ((0, 5), (1, 6)))
UNREAD = {
    "eigenvalues": "lapack_ssyevd_ffi, which is code of one platform",
    "singular values": "lapack_sgesdd_ffi, which is code of one platform",
    "debug": "serialization of host_callbacks",
    "triangular": "lapack_spotrf_ffi",
    "nearly the greatest": "ApproxTopK",
    "factors": "lapack_sgetrf_ffi",
    "solved": "lapack_sgetrf_ffi",
    "determinants": "lapack_sgetrf_ffi",
    "exponential of matrices": "lapack_sgetrf_ffi",
    "orthogonal factors": "lapack_sgeqrf_ffi",
    "reflections": "lapack_sorgqr_ffi",
    "three diagonals": "lapack_sgtsv_ffi",
}
"""The rows that cannot be exported for any runtime, or call code of one platform: what is said of each. The jax
function itself converts."""


def exported(function: Callable[..., Any], specs: Any) -> Any:
    """The function through bytes, as a file would hold it."""
    made = jax.export.export(jax.jit(function))(*specs)
    return jax.export.deserialize(made.serialize())


def failure(name: str, function: Callable[..., Any], specs: Any) -> str | None:
    model = jfuse.load(exported(function, specs))
    rng = np.random.default_rng(1)
    for size in (2, 3):
        args = [drawn(spec, size, rng) for spec in specs]
        wanted = jax.tree_util.tree_leaves(jax.jit(function)(*args))
        found = model.run(model.bind(None, args, {}))
        for output, value in zip(model.signature().output_names, wanted, strict=True):
            if not np.allclose(found[output], value, rtol=2e-5, atol=2e-5):
                return f"{name} at {size}: {output} differs"
    return None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")  # 64 bits in what jax's own random numbers export
@pytest.mark.parametrize("family", FAMILIES)
def test_all_that_jax_exports_is_read(family: str) -> None:
    failures = []
    for name, function, specs in FAMILIES[family]:
        if name in UNREAD:
            with pytest.raises((jfuse.JfuseError, NotImplementedError), match=re.escape(UNREAD[name])):
                failure(name, function, specs)
            continue
        try:
            found = failure(name, function, specs)
        except (jfuse.JfuseError, NotImplementedError) as error:
            found = f"{name}: {type(error).__name__}: {error}"
        failures += [found] if found else []
    assert not failures, "\n".join(failures)


def test_a_reduction_begins_with_its_first_value() -> None:
    def function(x: Any) -> Any:
        total = jax.lax.reduce(x, jnp.float32(2.0), jax.lax.add, (1,))
        return total, jax.lax.reduce(x, jnp.float32(0.25), jax.lax.max, (1,))

    assert failure("reductions", function, [jax.ShapeDtypeStruct((2, 3), jnp.float32)]) is None


def lstm(x: Any) -> Any:
    """f32[b,t,5] -> f32[b,t,6]"""

    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(row @ W + h @ U, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[0], 6))
    return jnp.swapaxes(jax.lax.scan(step, (zero, zero), jnp.swapaxes(x, 0, 1))[1], 0, 1)


def test_loops_of_an_exported_function_are_recurrences_of_open_sizes() -> None:
    result = jfuse.convert(exported(lstm, [f32(B, T, 5)]))
    assert result.report.operators["unidirectional_sequence_lstm"] == 1
    assert "while" not in result.report.operators
    assert {d.pair for d in result.report.differences} == {"jax/xla", "jax/litert"}
    run = Interpreter(model_content=result.to_bytes()).get_signature_runner()
    for shape in ((2, 7, 5), (3, 1, 5), (1, 9, 5)):
        x = np.random.default_rng(2).normal(size=shape).astype(np.float32)
        np.testing.assert_allclose(run(args_0=x)["output_0"], lstm(x), atol=1e-5)


@pytest.mark.slow
def test_several_platforms_names_and_unused_arguments() -> None:
    def function(x: Any, unused: Any, *, scale: Any) -> Any:
        return {"y": x["a"] * scale, "z": jax.nn.gelu(x["a"], approximate=False)}

    specs: Any = ({"a": f32(B, 3)}, f32(2)), {"scale": f32(3)}
    made = jax.export.export(jax.jit(function), platforms=("cpu", "tpu"))(*specs[0], **specs[1])
    result = jfuse.convert(made)
    assert result.signature().input_names == ("args_0_a", "args_1", "scale")
    assert result.signature().output_names == ("y", "z")
    two = jfuse.load({"a": made, "b": exported(lstm, [f32(B, T, 5)])})
    assert list(two.signatures) == ["a", "b"]


@pytest.mark.slow
def test_composites_keep_their_boundary() -> None:
    def marked(x: Any) -> Any:
        return jax.lax.composite(lambda v: v * jax.nn.sigmoid(v), "acme.swish")(x) + 1

    model = jfuse.load(exported(marked, [f32(2, 3)]))  # jax 0.10 exports none with open sizes
    assert re.search(r'composite\[.*name="acme.swish"', str(model))


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (lambda: exported(jnp.linalg.cholesky, [f32(3, 3)]), {}, "lapack_spotrf_ffi.*code of one platform"),
        (lambda: exported(jnp.sin, [f32(3)]), {"specs": [f32(3)]}, "states its own"),
        (lambda: exported(jnp.sin, [f32(3)]), {"params": {}}, "states its own"),
    ],
)
def test_what_cannot_be_read_says_why(source: Callable[[], Any], options: Any, message: str) -> None:
    with pytest.raises(ImportFailed, match=message):
        jfuse.load(source(), jfuse.Inputs(**options))
