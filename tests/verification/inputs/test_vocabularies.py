"""Inputs that are looked up in tables are drawn from the keys."""

from __future__ import annotations

import numpy as np
import pytest

import jfuse
from jfuse.verification.inputs.vocabularies import vocabularies, with_keys
from tests.models import tables


@pytest.mark.parametrize("name", ["strings_to_i64", "strings_to_floats", "sparse", "i64_to_strings"])
def test_most_of_what_is_drawn_is_a_key(name: str) -> None:
    signature = jfuse.load(tables.lookup(name, 100)).signature()
    keys = set(np.array([k.encode() if isinstance(k, str) else k for k in tables.TABLES[name][0]], object))
    (words,) = vocabularies(signature.graph).values()
    assert set(words.tolist()) == keys
    other = np.full(100, b"?", object) if isinstance(words[0], bytes) else np.full(100, 77)
    mixed, known = (with_keys(signature, {"x": other}, 0, every=e)["x"] for e in (False, True))
    assert 60 <= sum(k in keys for k in mixed.tolist()) <= 90
    assert set(known.tolist()) == keys


def test_what_is_not_looked_up_stays() -> None:
    import tensorflow as tf

    function = tf.function(lambda x: x * 2.0, input_signature=[tf.TensorSpec(3)], autograph=False)
    signature = jfuse.load(function).signature()
    drawn = {"x": np.ones(3, np.float32)}
    assert with_keys(signature, drawn, 0) == drawn
