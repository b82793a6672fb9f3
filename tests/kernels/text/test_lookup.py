"""Builtins that no TensorFlow op stands for, against LiteRT and written formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.text.lookup import fingerprint64
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from tests.verification.runners.running import in_litert

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(6, 2, 3)).astype(np.float32)
IDS = np.array([4, 0, 0, 5, 2], np.int32)
PLACES = np.array([[0, 0], [0, 2], [2, 0], [2, 1], [2, 2]], np.int32)
WEIGHTS = np.array([0.5, 2.0, 1.0, -3.0, 0.25], np.float32)


def graph_of(function: Any, *arrays: np.ndarray, open_sizes: bool = False) -> Graph:
    shapes = [(symbol("B"), *a.shape[1:]) if open_sizes else a.shape for a in arrays]
    types = [TensorType(s, DType.of(a.dtype)) for s, a in zip(shapes, arrays, strict=True)]
    return prepare_outputs(trace_graph(function, types))


def check(function: Any, *arrays: np.ndarray) -> Sequence[np.ndarray]:
    """What a function gives on arrays, as a graph, and in LiteRT: the same."""
    wanted = function(*arrays)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for open_sizes in (False, True):
        graph = graph_of(function, *arrays, open_sizes=open_sizes)
        for found in (evaluate(graph, arrays), in_litert(graph, arrays)):
            for f, w in zip(found, wanted, strict=True):
                assert (np.asarray(f).dtype, np.asarray(f).shape) == (w.dtype, w.shape)
                if w.dtype == np.float32:
                    np.testing.assert_allclose(f, w, rtol=1e-6, atol=1e-6)  # sums of three terms
                else:
                    np.testing.assert_array_equal(f, w)
    return wanted


@pytest.mark.parametrize("size", [*range(40), 63, 64, 65, 127, 128, 129, 500])
def test_fingerprints_are_those_of_tensorflow(size: int) -> None:
    data = RNG.bytes(size)
    wanted = tf.fingerprint(tf.constant(np.frombuffer(data, np.uint8)[None])).numpy().tobytes()
    if size:
        assert fingerprint64(data).to_bytes(8, "little") == wanted
    else:
        assert fingerprint64(data) == 0x9AE16A3B2F90404F


@pytest.mark.parametrize("combiner", ["SUM", "MEAN", "SQRTN"])
def test_embedding_lookup_sparse(combiner: str) -> None:
    (found,) = check(
        lambda ids, places, w: ops.embedding_lookup_sparse(ids, places, [4, 3], w, TABLE, combiner=combiner),
        IDS,
        PLACES,
        WEIGHTS,
    )
    wanted = np.zeros((4, 2, 3))
    for row, members in ((0, [0, 1]), (2, [2, 3, 4])):
        w = WEIGHTS[members].astype(np.float64)
        norm = {"SUM": 1.0, "MEAN": w.sum(), "SQRTN": np.sqrt((w * w).sum())}[combiner]
        wanted[row] = np.tensordot(w, TABLE[IDS[members]], 1) / norm
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_embedding_lookup_sparse_of_rank_3_and_of_a_shape_known_at_run_time() -> None:
    places = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 0]], np.int32)
    shape = np.array([2, 2, 2], np.int32)

    def call(ids: Any, places: Any, weights: Any, shape: Any) -> Any:
        return ops.embedding_lookup_sparse(ids, places, shape, weights, TABLE, combiner="SUM")

    graph = graph_of(call, IDS, places, WEIGHTS, shape)
    assert [str(d) for d in graph.outputs[0].type.shape] == ["N", "N1", "2", "3"]
    wanted = np.zeros((2, 2, 2, 3), np.float32)
    for place, i, w in zip(places, IDS, WEIGHTS, strict=True):
        wanted[place[0], place[1]] += w * TABLE[i]
    for found in (evaluate(graph, (IDS, places, WEIGHTS, shape)), in_litert(graph, (IDS, places, WEIGHTS, shape))):
        np.testing.assert_allclose(found[0], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "values",
    [TABLE[:3], np.array([4, 5, 6], np.int64), np.array([b"x", b"", b"yz"], object)],
    ids=["floats", "integers", "strings"],
)
def test_hashtable_lookup(values: np.ndarray) -> None:
    keys = np.array([-7, 5, 2**31 - 1], np.int32)
    found, hits = check(lambda x: ops.hashtable_lookup(x, keys, values), np.array([5, -7, 6, 0], np.int32))
    missing = np.asarray(b"", object) if values.dtype == object else np.zeros_like(values[0])
    np.testing.assert_array_equal(found, np.stack([values[1], values[0], missing, missing]))
    assert hits.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("kind", ["DENSE", "SPARSE"])
@pytest.mark.parametrize("x", [np.array([123, 456, -7], np.int32), TABLE[:3], np.array([1, 2, 3], np.int64)])
@pytest.mark.parametrize("weighed", [False, True])
def test_lsh_projection(kind: str, x: np.ndarray, weighed: bool) -> None:
    seeds = np.array([[0.123, 0.456, 1.5], [-0.321, 1.234, 7.0]], np.float32)
    weight = np.array([0.12, -0.34, 0.56], np.float32) if weighed else None
    check(lambda x: ops.lsh_projection(seeds, x, weight, type=kind), x)


def test_lsh_projection_tells_rows_apart() -> None:
    seeds = RNG.normal(size=(4, 8)).astype(np.float32)
    found = {ops.lsh_projection(seeds, np.array([i], np.int32), type="DENSE").tobytes() for i in range(20)}
    assert len(found) == 20


TEXTS = [
    b"The quick brown fox jumps",
    b"",
    b"one",
    b"a  b\tc ",
    b" leading and  trailing  ",
    "größe ist  alles".encode(),
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda t: repr(t))
@pytest.mark.parametrize(("size", "skips", "every"), [(2, 0, False), (3, 1, False), (3, 2, True), (1, 0, False)])
def test_skip_gram(text: bytes, size: int, skips: int, every: bool) -> None:
    options = {"ngram_size": size, "max_skip_size": skips, "include_all_ngrams": every}
    x = np.array([text], object)
    graph = graph_of(lambda x: ops.skip_gram(x, **options), x)
    (found,), (wanted,) = evaluate(graph, [x]), in_litert(graph, [x])
    assert found.tolist() == wanted.tolist()


def test_skip_gram_in_words() -> None:
    options = {"ngram_size": 2, "max_skip_size": 1, "include_all_ngrams": True}
    found = ops.skip_gram(np.array([b"a b c"], object), **options)
    assert found.tolist() == [b"a b", b"a c", b"a", b"b c", b"b", b"c"]
