"""What a user may hand to jfuse beside a jax function, and what is said where it does not fit."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfuse
from jfuse import ops
from jfuse.base.errors import ImportFailed, LowerError, VerifyFailed
from tests.frontends.jax_functions.rows import B, f32, i32


def affine(params: Any, x: Any) -> Any:
    return x @ params["w"] + params["b"]


PARAMS = {"w": np.ones((3, 2), np.float32), "b": np.array([1.0, 2.0], np.float32)}


def test_params_become_constants_and_open_sizes_stay_open() -> None:
    result = jfuse.convert(affine, jfuse.Inputs((f32(B, 3),), params=PARAMS))
    assert result.report.operators == {"fully_connected": 1}
    assert [(d.pair, d.error < 1e-5) for d in result.report.differences] == [("jax/xla", True), ("jax/litert", True)]
    np.testing.assert_allclose(result(np.ones((2, 3), np.float32)), [[4.0, 5.0]] * 2)


def test_inputs_are_named_after_parameters_and_paths() -> None:
    model = jfuse.load(affine, ({"w": f32(3, 2), "b": f32(2)}, f32(B, 3)))
    assert model.signature().input_names == ("params_b", "params_w", "x")
    by_name = jfuse.load(lambda *, left, right: left + right, {"right": f32(2), "left": np.zeros(2, np.float32)})
    assert by_name.signature().input_names == ("left", "right")


def test_functions_by_key_are_signatures() -> None:
    result = jfuse.convert({"twice": lambda x: x * 2, "size": jnp.sum}, {"twice": (f32(3),), "size": (f32(2, 2),)})
    assert list(result.signatures) == ["twice", "size"]
    assert {d.signature for d in result.report.differences} == {"twice", "size"}
    assert result.run({"a": np.ones((2, 2), np.float32)}, "size")["output_0"] == 4.0


def test_a_composite_keeps_its_boundary() -> None:
    @jfuse.fuses("acme.double", default=False)
    def fuse_double(x: Any) -> Any:
        return ops.add(x, x)

    double = jax.lax.composite(lambda x: x * 2.0, name="acme.double")
    result = jfuse.convert(lambda x: double(x) * jnp.cos(x), (f32(4),), rules=[fuse_double])
    assert [f.composite for f in result.report.fused] == ["acme.double"]
    assert result.report.operators == {"add": 1, "cos": 1, "mul": 1}


def test_a_rule_of_the_user_for_a_primitive() -> None:
    @jfuse.lowers_jax("nextafter", default=False)
    def lower_nextafter(x: Any, y: Any) -> Any:
        return ops.cos(x)

    result = jfuse.lower(jfuse.load(lambda x: jnp.nextafter(x, 2.0), (f32(4),), rules=[lower_nextafter]))
    assert result.report.operators == {"cos": 1}


def test_verify_takes_a_converted_function_and_another() -> None:
    result = jfuse.convert(jnp.tanh, (f32(B, 3),))
    assert jfuse.verify(result).passed
    with pytest.raises(VerifyFailed, match="output_0"):
        jfuse.verify(result, lambda x: jnp.tanh(x) + 0.1)


@pytest.mark.parametrize(
    ("function", "specs", "error", "message"),
    [
        (
            lambda x: jnp.linalg.eig(x)[0].real + jax.scipy.linalg.schur(x)[0],
            (f32(3, 3),),
            LowerError,
            "nothing spells eig, schur",
        ),
        (lambda x: jnp.take(x, 7), (f32(3),), LowerError, "out of bounds"),
        (lambda x: x + jax.random.normal(jax.random.wrap_key_data(x), (2,)), (f32(2),), ImportFailed, "cannot trace"),
        (lambda x: x if x.sum() > 0 else -x, (f32(3),), ImportFailed, "cannot trace"),
        (lambda x, y: x, (f32(3),), ImportFailed, "cannot trace"),
        (lambda x: x, (jax.ShapeDtypeStruct((2,), jnp.float8_e4m3b11fnuz),), ImportFailed, "'x'"),
        ({"a": jnp.sin}, (f32(3),), ImportFailed, "an entry for each function"),
        (jnp.sin, None, ImportFailed, "inputs="),
    ],
)
def test_what_does_not_fit_is_said(function: Any, specs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        jfuse.convert(function, specs)


def test_no_tensorflow_is_imported() -> None:
    code = (
        "import sys, jfuse, jax, jax.numpy as jnp\n"
        "jfuse.convert(jnp.tanh, (jax.ShapeDtypeStruct((2, 3), jnp.float32),))\n"
        "assert 'tensorflow' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300).returncode == 0


def test_indices_out_of_bounds_are_spoken_of() -> None:
    model = jfuse.load(lambda i: jnp.take(jnp.arange(5.0), i), (i32(B),))
    assert any("indices" in note for note in model.report.notes)
