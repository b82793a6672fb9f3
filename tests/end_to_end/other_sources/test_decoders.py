"""Decoders with a static cache: prompts of several lengths and forty steps in a row answer as their source does."""

from __future__ import annotations

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfuse
from jfuse.running.interpreter import LiteRt
from tests.models.jax_decoder import STEPS, WORDS, decoder, empty_cache

(PROMPT,) = jax.export.symbolic_shape("T", constraints=[f"T <= {STEPS}"])
SNR = {None: 90, "dynamic": 25, "int8": 15, "int4_blocks": 5}
"""The least ratio of answer to error in dB, of weights that were drawn, which have no outliers to keep."""


def prompts(rng: np.random.Generator) -> list[list[np.ndarray]]:
    """Texts that each begin with an empty cache: a prompt, then word by word; forty steps in all."""
    return [
        [rng.integers(0, WORDS, (1, n)).astype(np.int32), *rng.integers(0, WORDS, (steps, 1, 1)).astype(np.int32)]
        for n, steps in ((5, 20), (9, 12), (1, 8))
    ]


def ratio(pairs: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """The SNR in dB of answers over all calls."""
    found, wanted = (np.concatenate([np.ravel(p[i]) for p in pairs]) for i in (0, 1))
    return float(10 * np.log10((wanted**2).mean() / ((found - wanted) ** 2).mean()))


@pytest.mark.parametrize(
    ("window", "recipe"),
    [
        (None, None),
        *(
            pytest.param(w, r, marks=pytest.mark.slow)
            for w, r in ((5, None), (None, "dynamic"), (5, "int4_blocks"), (None, "int8"))
        ),
    ],
)
def test_a_decoder_of_jax(window: int | None, recipe: Any) -> None:
    call = decoder(window=window)
    functions = {"prefill": call, "decode": call, "clear": lambda c, ids: (ids, jax.tree.map(jnp.zeros_like, c))}
    ids = {key: jax.ShapeDtypeStruct((1, PROMPT if key == "prefill" else 1), jnp.int32) for key in functions}
    data = [
        (key, {"ids": words})
        for text in prompts(np.random.default_rng(9))
        for key, words in zip(("clear", "prefill", *["decode"] * len(text)), (text[-1], *text), strict=False)
    ]
    result = jfuse.convert(
        functions,
        jfuse.Inputs({k: [s] for k, s in ids.items()}, params=empty_cache(), mutable=True),
        quantize=recipe,
        calibration=data if recipe == "int8" else None,
    )
    assert len(result.report.kept) == 5
    interpreter, pairs = LiteRt(result.to_bytes(), delegates=True), []
    for text in prompts(np.random.default_rng(3)):
        cache = empty_cache()
        interpreter.run("clear", {"ids": text[-1]})
        for words in text:
            wanted, cache = call(cache, words)
            key = "decode" if words is not text[0] else "prefill"
            pairs.append((interpreter.run(key, {"ids": words})["output_0"], np.asarray(wanted)))
    assert ratio(pairs) > SNR[recipe]


def test_a_symbol_of_the_users_keeps_its_constraint() -> None:
    """Without it, jax cannot say whether a prompt fits into the cache."""
    (free,) = jax.export.symbolic_shape("T")
    ids = jax.ShapeDtypeStruct((1, free), jnp.int32)
    with pytest.raises(jfuse.ImportFailed, match=r'constraints=\["T <= 64"\]'):
        jfuse.convert(decoder(), jfuse.Inputs([ids], params=empty_cache(), mutable=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("window", "spelled_out", "recipe"),
    [(None, False, None), (5, True, None), (None, True, "dynamic"), (5, False, "int4_blocks")],
)
def test_a_decoder_of_pytorch(window: int | None, spelled_out: bool, recipe: Any) -> None:
    torch: Any = pytest.importorskip("torch")
    from tests.models.torch_modules.decoder import Decoder

    torch.manual_seed(0)
    module = Decoder(window, spelled_out=spelled_out).eval()
    specs = {
        key: [jax.ShapeDtypeStruct((1, size), np.int64), jax.ShapeDtypeStruct((size,), np.int64)]
        for key, size in (("prefill", jax.export.symbolic_shape("T")[0]), ("decode", 1))
    }
    result = jfuse.convert({"prefill": module, "decode": module}, specs, quantize=recipe)
    assert len(result.report.kept) == 4
    interpreter, eager, pairs = LiteRt(result.to_bytes(), delegates=True), copy.deepcopy(module), []
    for text in prompts(np.random.default_rng(3)):
        step = 0
        for words in text:
            steps = np.arange(step, step + words.shape[1])
            step += words.shape[1]
            key = "decode" if words is not text[0] else "prefill"
            with torch.no_grad():
                wanted = eager(torch.tensor(words), torch.tensor(steps)).numpy()
            found = interpreter.run(key, {"ids": words.astype(np.int64), "steps": steps})
            pairs.append((found["output_0"], wanted))
    assert ratio(pairs) > SNR[recipe]


@pytest.mark.parametrize(
    ("write", "recipe"),
    [
        ("scatter_nd", "dynamic"),  # verified by calls in a row, beyond the end of the cache
        *(pytest.param(w, None, marks=pytest.mark.slow) for w in ("slice", "scatter", "scatter_nd", "tensor_scatter")),
    ],
)
def test_a_decoder_of_tensorflow(write: str, recipe: Any) -> None:
    from tests.models.tf_decoder import Decoder

    module = Decoder(write)
    functions = {key: getattr(module, key).get_concrete_function() for key in ("prefill", "decode", "clear")}
    rules = None if recipe is None else jfuse.Recipe((jfuse.QuantizeRule(recipe, min_elements=0),))
    result = jfuse.convert(functions, quantize=rules)
    assert len(result.report.kept) == 5
    interpreter, pairs = LiteRt(result.to_bytes(), delegates=True), []
    for text in prompts(np.random.default_rng(3)):
        module.clear()
        interpreter.run("clear", {})
        for words in text:
            key = "decode" if words is not text[0] else "prefill"
            wanted = getattr(module, key)(words)["logits"].numpy()
            pairs.append((interpreter.run(key, {"ids": words})["logits"], wanted))
    assert ratio(pairs) > SNR[recipe]
