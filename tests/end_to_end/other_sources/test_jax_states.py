"""What functions of jax keep from call to call: LiteRT answers calls in a row as Flax, Equinox and Haiku do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfuse
from jfuse.running.interpreter import LiteRt

eqx: Any = pytest.importorskip("equinox")
hk: Any = pytest.importorskip("haiku")
nnx: Any = pytest.importorskip("flax.nnx")
nn: Any = pytest.importorskip("flax.linen")

STEP = jax.ShapeDtypeStruct((1, 1, 8), jnp.float32)
ROW = jax.ShapeDtypeStruct((3,), jnp.float32)


class Decoder(nn.Module):
    """Attention that reads what earlier calls saw, and a norm of statistics that go on."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8, decode=True)(x, x, x)
        return nn.BatchNorm(use_running_average=False, momentum=0.9)(x)


class Counter(nnx.Module):
    def __init__(self) -> None:
        self.count = nnx.Variable(jnp.zeros((), jnp.int32))
        self.scale = nnx.Param(jnp.full((3,), 2.0))

    def __call__(self, x: Any) -> Any:
        self.count[...] += 1
        return x * self.scale[...] * self.count[...]

    def peek(self, x: Any) -> Any:
        return x + self.count[...]

    def clear(self, x: Any) -> Any:
        self.count[...] = jnp.zeros_like(self.count[...])
        return x


class Decay(eqx.Module):
    place: Any

    def __init__(self) -> None:
        self.place = eqx.nn.StateIndex(jnp.zeros(3))

    def __call__(self, x: Any, state: Any) -> Any:
        value = state.get(self.place) / 2 + x
        return value, state.set(self.place, value)


def linen() -> tuple[Any, dict[str, Any], Callable[[Any], Any], Any]:
    model = Decoder()
    variables = model.init(jax.random.key(0), jnp.zeros((1, 6, 8)))
    held = [{name: variables[name] for name in ("cache", "batch_stats")}]

    def call(x: Any) -> Any:
        y, held[0] = model.apply({**variables, **held[0]}, x, mutable=["cache", "batch_stats"])
        return y

    return model, {"params": variables, "mutable": ["cache", "batch_stats"]}, call, STEP


def linen_function() -> tuple[Any, dict[str, Any], Callable[[Any], Any], Any]:
    model, options, call, spec = linen()
    return lambda held, x: model.apply(held, x, mutable=options["mutable"]), options, call, spec


def attention_of_nnx() -> tuple[Any, dict[str, Any], Callable[[Any], Any], Any]:
    model = nnx.MultiHeadAttention(2, 8, 8, decode=True, rngs=nnx.Rngs(0))
    model.init_cache((1, 6, 8))
    return model, {}, nnx.clone(model), STEP


def equinox() -> tuple[Any, dict[str, Any], Callable[[Any], Any], Any]:
    model, state = eqx.nn.make_with_state(Decay)()
    held = [np.zeros(3, np.float32)]

    def call(x: Any) -> Any:
        held[0] = held[0] / 2 + x
        return held[0]

    return lambda kept, x: model(x, kept), {"params": state, "mutable": True}, call, ROW


def haiku() -> tuple[Any, dict[str, Any], Callable[[Any], Any], Any]:
    def model(x: Any) -> Any:
        kept = hk.get_state("kept", (3,), init=jnp.zeros) / 2 + x
        hk.set_state("kept", kept)
        return hk.Linear(2)(kept)

    transformed = hk.transform_with_state(model)
    weights, state = transformed.init(jax.random.key(0), jnp.zeros(3))
    held = [state]

    def call(x: Any) -> Any:
        y, held[0] = transformed.apply(weights, held[0], None, x)
        return y

    return lambda kept, x: transformed.apply(weights, kept, None, x), {"params": state, "mutable": True}, call, ROW


SOURCES = (linen, linen_function, attention_of_nnx, equinox, haiku)


def in_litert(result: Any, calls: Sequence[Mapping[str, Any]]) -> list[np.ndarray]:
    """The first output of each call in a row; in "io" each call gets the states of the one before."""
    interpreter, signature = LiteRt(result.to_bytes(), delegates=True), result.signature()
    held = {s.name: s.initial.array for s in signature.exposed}
    found = []
    for inputs in calls:
        outputs = interpreter.run(signature.key, {**inputs, **held})
        held = {name: outputs[name] for name in held}
        found.append(outputs[signature.output_names[0]])
    return found


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_calls_in_a_row_go_on(source: Callable[[], Any]) -> None:
    function, options, call, spec = source()
    named = {"inputs_q": spec} if function.__class__.__name__ == "MultiHeadAttention" else [spec]
    result = jfuse.convert(function, jfuse.Inputs(named, **options))
    assert result.report.kept
    rng = np.random.default_rng(1)
    rows = [rng.normal(size=spec.shape).astype(np.float32) for _ in range(4)]
    (name,) = result.signature().input_names
    for found, row in zip(in_litert(result, [{name: row} for row in rows]), rows, strict=True):
        np.testing.assert_allclose(found, call(row), atol=2e-5)


@pytest.mark.parametrize("mode", ["reset", "io"])
def test_modes_of_states(mode: Any) -> None:
    function, options, call, spec = equinox()
    result = jfuse.convert(function, jfuse.Inputs([spec], **options), state=mode)
    rows = [np.full(3, n, np.float32) for n in (1, 2, 5)]
    name = result.signature().input_names[0]
    for found, row in zip(in_litert(result, [{name: row} for row in rows]), rows, strict=True):
        np.testing.assert_allclose(found, row if mode == "reset" else call(row))


def test_signatures_share_a_variable() -> None:
    counter = Counter()
    functions = {"count": counter, "clear": counter.clear, "peek": counter.peek}
    result = jfuse.convert(functions, {key: [ROW] for key in functions})
    assert [kept.name for kept in result.report.kept] == ["count"]
    interpreter, x = LiteRt(result.to_bytes(), delegates=True), np.ones(3, np.float32)
    order = ("count", "count", "peek", "clear", "peek", "count")
    found = [float(interpreter.run(key, {"x": x})["output_0"][0]) for key in order]
    assert found == [2, 4, 3, 1, 1, 2]
    assert counter.count[...] == 0  # the source's own is as it was


def test_variables_that_are_not_mutable_keep_their_values() -> None:
    result = jfuse.convert(Counter(), jfuse.Inputs([ROW], mutable=()))
    assert not result.report.kept
    np.testing.assert_array_equal(
        LiteRt(result.to_bytes(), delegates=True).run("serving_default", {"x": np.ones(3, np.float32)})["output_0"], 2
    )


def test_statistics_that_a_call_only_reads_are_constants() -> None:
    model = nnx.BatchNorm(3, rngs=nnx.Rngs(0), use_running_average=True)
    assert not jfuse.convert(model, [jax.ShapeDtypeStruct((2, 3), jnp.float32)]).report.kept


def grows(held: Any, x: Any) -> Any:
    return x, {"h": jnp.concatenate([held["h"], x])}


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (grows, {"mutable": ["h"]}, "mutable= names a part of params=, which is missing"),
        (grows, {"params": {"h": np.zeros(3, np.float32)}, "mutable": ["g"]}, "mutable= names what params= lacks"),
        (grows, {"params": {"h": np.zeros(3, np.float32)}, "mutable": "h"}, "takes a sequence of names"),
        (grows, {"params": {"h": np.zeros(3, np.float32)}, "mutable": ["h"]}, "the state 'h' changes its type"),
        (lambda held, x: x, {"params": {"h": np.zeros(3)}, "mutable": True}, "does not return its mutable values"),
        (lambda held, x: (x, {}), {"params": {"h": np.zeros(3)}, "mutable": ["h"]}, "returns other arrays"),
        (Counter(), {"mutable": ["Cache"]}, "mutable= names no variable of the module"),
    ],
)
def test_what_cannot_go_on_is_refused(function: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(jfuse.JfuseError, match=message):
        jfuse.convert(function, jfuse.Inputs([ROW], **options))
