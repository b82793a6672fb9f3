"""Language models of keras-hub with their cache: prompts of several lengths, then word by word, on forty calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.measure import relative_error
from jfuse.running.interpreter import LiteRt

models: Any = pytest.importorskip("keras_hub").models
pytestmark = pytest.mark.slow

WORDS, LAYERS, STEPS, SIZE = 40, 2, 32, 8
PLAIN = {"vocabulary_size": WORDS, "num_layers": LAYERS, "hidden_dim": 16, "intermediate_dim": 32}
GROUPED = {"vocabulary_size": WORDS, "num_layers": LAYERS, "hidden_dim": 32, "intermediate_dim": 48}
QUERIES = {"num_query_heads": 4, "num_key_value_heads": 2}
BACKBONES: dict[str, dict[str, Any]] = {
    "GPT2": {**PLAIN, "num_heads": 2, "max_sequence_length": STEPS},
    "GPTNeoX": {**PLAIN, "num_heads": 2, "max_sequence_length": STEPS},
    "OPT": {**PLAIN, "num_heads": 2, "max_sequence_length": STEPS},
    "Falcon": {**PLAIN, "num_attention_heads": 2},
    "Llama": {**GROUPED, **QUERIES},
    "Mistral": {**GROUPED, **QUERIES, "sliding_window": 8},
    "Gemma": {**GROUPED, "num_query_heads": 4, "num_key_value_heads": 1, "head_dim": SIZE},
}
HEADS = {"Llama": 2, "Mistral": 2, "Gemma": 1}
CASES = [(name, None) for name in BACKBONES] + [("Llama", "dynamic"), ("GPT2", "int4_blocks")]
SNR = {"dynamic": 20, "int4_blocks": 5}
"""The least ratio of answer to error in dB, of weights that were drawn."""


def functions(name: str) -> tuple[Any, Mapping[str, Any]]:
    """A model, and its functions for many ids and for one.

    Ids i32[1, T], a cache and the place of the first id -> logits and the next cache
    """
    backbone = getattr(models, f"{name}Backbone")(**BACKBONES[name])
    model = getattr(models, f"{name}CausalLM")(backbone)
    rng = np.random.default_rng(2)
    model.set_weights([w + 0.05 * rng.standard_normal(w.shape) for w in model.get_weights()])

    def call(ids: Any, cache: Any, at: Any) -> Any:
        logits, _, new = model.call_with_cache(ids, cache, at)
        return {"logits": logits, "new": new}

    cache = tf.TensorSpec((1, LAYERS, 2, STEPS, HEADS.get(name, 2), SIZE), tf.float32, name="cache")
    at = tf.TensorSpec((), tf.int32, name="at")
    return model, {
        key: tf.function(call, autograph=False).get_concrete_function(
            tf.TensorSpec((1, size), tf.int32, name="ids"), cache, at
        )
        for key, size in (("prefill", None), ("decode", 1))
    }


def texts() -> Iterator[tuple[str, np.ndarray, int]]:
    """Forty calls: prompts of three lengths, each followed by words."""
    rng = np.random.default_rng(3)
    for prompt, words in ((5, 15), (9, 12), (1, 10)):
        yield "prefill", rng.integers(0, WORDS, (1, prompt)).astype(np.int32), 0
        for i in range(words):
            yield "decode", rng.integers(0, WORDS, (1, 1)).astype(np.int32), prompt + i


@pytest.mark.parametrize(("name", "recipe"), CASES)
def test_forty_calls(name: str, recipe: Any) -> None:
    _model, calls = functions(name)  # who calls them keeps their variables
    result = jfuse.convert(calls, state={"cache": ("cache", "new")}, quantize=recipe, verify=False)
    runtime, pairs = LiteRt(result.to_bytes(), delegates=True), []
    cache = np.zeros((1, LAYERS, 2, STEPS, HEADS.get(name, 2), SIZE), np.float32)
    for key, ids, at in texts():
        wanted = calls[key](tf.constant(ids), tf.constant(cache), tf.constant(at))
        cache = wanted["new"].numpy()
        pairs.append((runtime.run(key, {"ids": ids, "at": np.array(at, np.int32)})["logits"], wanted["logits"].numpy()))
    assert len(pairs) == 40
    if recipe is None:
        assert max(relative_error(found, value) for found, value in pairs) <= 1e-5  # two layers in f32
        return
    found, value = (np.concatenate([p[i].ravel() for p in pairs]) for i in (0, 1))
    assert 10 * np.log10((value**2).mean() / ((found - value) ** 2).mean()) > SNR[recipe]
