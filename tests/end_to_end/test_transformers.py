"""Transformers: TensorFlow's answers in LiteRT, in no more operators than the official converter needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Signature
from tests.end_to_end.invokes import check_invokes, random_inputs
from tests.models import transformers
from tests.models.keras_libraries import LIBRARIES
from tests.slow import keras_3, slow_but

KERAS: Mapping[str, Callable[..., Any]] = {
    "encoder": transformers.encoder,
    "masked_encoder": transformers.masked_encoder,
    "decoder": transformers.decoder,
}
BY_HAND: Mapping[str, Callable[..., Any]] = {
    "einsum_attention": transformers.einsum_attention,
    "llama_block": transformers.llama_block,
}
CACHES = {write.__name__: write for write in (transformers.scattered, transformers.joined, transformers.chosen)}

# What TFLiteConverter of TensorFlow 2.21 makes of them at batch 1 and the same number of steps. "joined" it refuses.
OFFICIAL: Mapping[str, int] = {
    "encoder-keras": 97,
    "encoder-tf_keras": 92,
    "masked_encoder-keras": 48,
    "masked_encoder-tf_keras": 48,
    "decoder-keras": 78,
    "decoder-tf_keras": 72,
    "einsum_attention": 17,
    "llama_block": 56,
    "scattered": 63,
    "chosen": 51,
}


def check_count(lite: jfuse.Model, name: str) -> None:
    """As few operators as the official converter's, and none that computes a shape."""
    assert lite.report.operators.get("shape", 0) == 0
    assert sum(lite.report.operators.values()) <= OFFICIAL[name]


@pytest.mark.parametrize("library", slow_but(keras_3, LIBRARIES))
@pytest.mark.parametrize("name", KERAS)
def test_keras_layers(name: str, library: str) -> None:
    lite = jfuse.convert(KERAS[name](library), verify=False)
    check_count(lite, f"{name}-{library}")
    check_invokes(lite)


@pytest.mark.parametrize("library", slow_but(keras_3, LIBRARIES))
@pytest.mark.parametrize("name", KERAS)
def test_keras_layers_on_any_number_of_steps(name: str, library: str) -> None:
    check_invokes(jfuse.convert(KERAS[name](library, None), verify=False))


@pytest.mark.parametrize("name", BY_HAND)
def test_blocks_by_hand(name: str) -> None:
    lite = jfuse.convert(BY_HAND[name](), verify=False)
    check_count(lite, name)
    check_invokes(lite)


@pytest.mark.parametrize("name", BY_HAND)
def test_blocks_by_hand_on_any_number_of_steps(name: str) -> None:
    check_invokes(jfuse.convert(BY_HAND[name](None), verify=False))


@pytest.mark.parametrize("name", CACHES)
def test_one_step_with_a_cache(name: str) -> None:
    lite = jfuse.convert(transformers.decode_step(CACHES[name]), verify=False)
    if name in OFFICIAL:
        check_count(lite, name)
    (signature,) = lite.program.signatures
    check_invokes(lite, lambda seed: at_a_place(signature, seed))


def at_a_place(signature: Signature, seed: int) -> dict[str, np.ndarray]:
    """Random inputs of a step, with a place within the cache."""
    inputs = random_inputs(signature, {}, seed)
    inputs["place"] = np.array((0, transformers.LONGEST - 1, 5)[seed], np.int32)
    return inputs
