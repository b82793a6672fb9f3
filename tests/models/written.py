"""Models written as people write them: decoders, embeddings of sparse features, images of another's size.

Each function gives a tf.function and draws of its inputs, by the number of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

Draw = Callable[[int], dict[str, np.ndarray]]


class Written(NamedTuple):
    """A model and its inputs."""

    source: Any
    draw: Draw


def _weights(*shape: int, seed: int = 0) -> np.ndarray:
    return (0.5 * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def generation() -> Written:
    """Tokens behind a prompt i32[1,n] up to the length of 8: as many steps as the prompt leaves."""
    words, width, length = 12, 6, 8
    table, places, query = (tf.Variable(_weights(*s)) for s in ((words, width), (length, width), (width, width)))

    @tf.function(input_signature=[tf.TensorSpec([1, None], tf.int32, name="prompt")], autograph=False)
    def generate(prompt: Any) -> dict[str, Any]:
        count = tf.shape(prompt)[1]

        def step(i: Any, ids: Any) -> Any:
            x = tf.gather(table, ids) + places
            scores = tf.matmul(x @ query, x, transpose_b=True)
            causal = (1.0 - tf.linalg.band_part(tf.ones([length, length]), -1, 0)) * -1e9
            y = x + tf.matmul(tf.nn.softmax(scores + causal), x)
            following = tf.argmax(y[:, i - 1] @ tf.transpose(table), -1, output_type=tf.int32)
            return i + 1, tf.tensor_scatter_nd_update(ids, [[0, i]], following)

        whole = tf.reshape(tf.pad(prompt, [[0, 0], [0, length - count]]), [1, length])
        return {"ids": tf.while_loop(lambda i, _: i < length, step, (count, whole))[1]}

    return Written(
        generate, lambda n: {"prompt": np.random.default_rng(n).integers(0, words, (1, 2 + n)).astype(np.int32)}
    )


def _lstm(x: Any, h: Any, c: Any, kernel: Any) -> tuple[Any, Any]:
    i, f, g, o = tf.split(tf.concat([x, h], 1) @ kernel, 4, axis=1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c


def beam_search() -> Written:
    """Three beams over five steps from a state f32[b,4], with a range of the open batch within the loop."""
    words, units, beams, steps = 7, 4, 3, 5
    table, kernel, out = (tf.Variable(_weights(*s)) for s in ((words, units), (2 * units, 4 * units), (units, words)))

    @tf.function(input_signature=[tf.TensorSpec([None, units], name="state")])
    def search(state: Any) -> dict[str, Any]:
        batch = tf.shape(state)[0]
        h = tf.repeat(state, beams, axis=0)
        c = tf.zeros_like(h)
        word, score = tf.ones([batch, beams], tf.int32), tf.tile([[0.0] + [-1e9] * (beams - 1)], [batch, 1])
        chosen = tf.TensorArray(tf.int32, steps, element_shape=[None, beams])
        for t in tf.range(steps):
            h, c = _lstm(tf.gather(table, tf.reshape(word, [-1])), h, c, kernel)
            scores = tf.reshape(tf.nn.log_softmax(h @ out), [batch, beams, words]) + score[:, :, None]
            score, best = tf.math.top_k(tf.reshape(scores, [batch, beams * words]), beams)
            word = best % words
            rows = tf.reshape(best // words + tf.range(batch)[:, None] * beams, [-1])
            h, c = tf.gather(h, rows), tf.gather(c, rows)
            chosen = chosen.write(t, word)
        return {"words": tf.transpose(chosen.stack(), [1, 0, 2]), "score": score}

    return Written(search, lambda n: {"state": _weights(1 + n % 3, units, seed=n)})


def samples_of_each_row() -> Written:
    """An LSTM over x f32[b,6,3] with three paths for each row of the batch, each with one of its features."""
    kernel = tf.Variable(_weights(1 + 4, 16))

    @tf.function(input_signature=[tf.TensorSpec([None, 6, 3], name="x")], autograph=False)
    def paths(x: Any) -> dict[str, Any]:
        rows = tf.transpose(tf.reshape(tf.transpose(x, [0, 2, 1]), [-1, 6, 1]), [1, 0, 2])
        h = tf.zeros([3 * tf.shape(x)[0], 4])

        def step(t: Any, ys: Any, h: Any, c: Any) -> Any:
            h, c = _lstm(rows[t], h, c, kernel)
            return t + 1, ys.write(t, h), h, c

        start = (0, tf.TensorArray(tf.float32, 6), h, tf.zeros_like(h))
        _, ys, h, _ = tf.while_loop(lambda t, *_: t < 6, step, start)
        return {"mean": tf.reduce_mean(tf.reshape(h, [-1, 3, 4]), 1), "all": ys.stack()}

    return Written(paths, lambda n: {"x": _weights(1 + n % 3, 6, 3, seed=n)})


def sparse_features(combiner: str, *, weighed: bool) -> Written:
    """`safe_embedding_lookup_sparse`: rows without ids, ids below 0, weights of 0; f32[4,3]."""
    table = tf.Variable(_weights(9, 3))
    specs = [tf.TensorSpec([None, 2], tf.int64, name="places"), tf.TensorSpec([None], tf.int64, name="ids")]
    specs += [tf.TensorSpec([None], name="weights")] if weighed else []

    @tf.function(input_signature=specs, autograph=False)
    def embed(places: Any, ids: Any, weights: Any = None) -> dict[str, Any]:
        ids, weighing = (
            None if v is None else tf.SparseTensor(places, v, tf.constant([4, 5], tf.int64)) for v in (ids, weights)
        )
        return {"y": tf.nn.safe_embedding_lookup_sparse(table, ids, weighing, combiner=combiner)}

    def draw(n: int) -> dict[str, np.ndarray]:
        random = np.random.default_rng(n)
        some = random.random((4, 5)) < 0.5
        some[n % 4] = False
        places = np.argwhere(some).astype(np.int64)
        drawn = {"places": places, "ids": random.integers(-1, 9, len(places)).astype(np.int64)}
        return drawn | ({"weights": random.integers(0, 3, len(places)).astype(np.float32)} if weighed else {})

    return Written(embed, draw)


def enlarged_to_another() -> Written:
    """An image f32[b,h,w,2] made smaller and larger again by a transposed convolution to the size that it had."""
    down, up = tf.Variable(_weights(3, 3, 2, 4)), tf.Variable(_weights(3, 3, 2, 4))

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 2], name="image")], autograph=False)
    def again(image: Any) -> dict[str, Any]:
        small = tf.nn.relu(tf.nn.conv2d(image, down, 2, "SAME"))
        return {"image": tf.nn.conv2d_transpose(small, up, tf.shape(image), 2, "SAME")}

    sizes = ((1, 5, 8), (2, 6, 3), (3, 4, 4))
    return Written(again, lambda n: {"image": _weights(*sizes[n % 3], 2, seed=n)})


def speech(paths: int) -> Written:
    """The most probable texts of frames f32[b,t,6]: an LSTM, and a beam search over its classes."""
    kernel, recurrent, classes = (_weights(*s) for s in ((6, 32), (8, 32), (8, 5)))

    @tf.function(input_signature=[tf.TensorSpec([None, None, 6], name="frames")], autograph=False)
    def texts(frames: Any) -> dict[str, Any]:
        batch, steps = tf.shape(frames)[0], tf.shape(frames)[1]

        def step(state: Any, x: Any) -> Any:
            h, c = state
            i, f, g, o = tf.split(x @ kernel + h @ recurrent, 4, axis=1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            return tf.sigmoid(o) * tf.tanh(c), c

        zeros = tf.zeros([batch, 8])
        hidden, _ = tf.scan(step, tf.transpose(frames, [1, 0, 2]), (zeros, zeros))
        scores = tf.reshape(tf.reshape(hidden, [-1, 8]) @ classes, [steps, batch, 5]) * 4.0
        found, chances = tf.nn.ctc_beam_search_decoder(scores, tf.fill([batch], steps), 6, paths)
        return {f"text{i}": tf.sparse.to_dense(text, -1) for i, text in enumerate(found)} | {"chances": chances}

    return Written(texts, lambda n: {"frames": _weights(1 + n % 3, (9, 4, 15)[n % 3], 6, seed=n)})


def transcripts() -> Written:
    """The most probable class of each frame f32[b,t,6], by two decoders: one is given logits, one probabilities."""
    window, classes = _weights(3, 6, 8), _weights(8, 5, seed=1)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 6], name="frames")], autograph=False)
    def texts(frames: Any) -> dict[str, Any]:
        logits = 4.0 * tf.tanh(tf.nn.conv1d(frames, window, 2, "SAME")) @ classes
        batch, steps = tf.shape(logits)[0], tf.shape(logits)[1]
        (found,), chance = tf.nn.ctc_greedy_decoder(tf.transpose(logits, [1, 0, 2]), tf.fill([batch], steps))
        others, _ = keras.ops.ctc_decode(tf.nn.softmax(logits), tf.range(batch) + 1, mask_index=4)
        return {"text": tf.sparse.to_dense(found, -1), "chance": chance, "others": others}

    return Written(texts, lambda n: {"frames": _weights(1 + n % 3, (9, 12, 16)[n % 3], 6, seed=n)})
