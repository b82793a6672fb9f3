"""Functions with branches, loops and calls, each with the inputs that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Arrays = dict[str, np.ndarray]


def x(*shape: int | None, dtype: Any = tf.float32, name: str = "x") -> Any:
    """The specification of an input."""
    return tf.TensorSpec(shape, dtype, name=name)


VECTOR_AND_STEPS = (x(3), x(dtype=tf.int32, name="n"))


@dataclass(frozen=True)
class Row:
    """A function, and how its inputs are drawn from a seed; None for the usual way."""

    function: Any
    draw: Callable[[int], Arrays] | None


MODELS: dict[str, Row] = {}


def traced(
    *specs: Any, draw: Callable[[int], Arrays] | None = None, autograph: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Add the decorated function, as a tf.function of these inputs, to the models."""

    def add(function: Callable[..., Any]) -> Any:
        made = tf.function(function, input_signature=list(specs), autograph=autograph)
        MODELS[function.__name__] = Row(made, draw)
        return made

    return add


def steps(seed: int) -> Arrays:
    """A vector, and a number of steps from 0 to 4."""
    vector = np.random.default_rng(seed).normal(size=3).astype(np.float32)
    return {"x": vector, "n": np.asarray((3, 0, 4, 1, 2)[seed % 5], np.int32)}


@traced(*VECTOR_AND_STEPS, draw=steps)
def counted(x: Any, n: Any) -> Any:
    """A loop of as many steps as an input says, none included."""
    return tf.while_loop(lambda i, _: i < n, lambda i, v: (i + 1, v * 1.5 + 1.0), (0, x))[1]


@traced(*VECTOR_AND_STEPS, draw=steps)
def swapped(x: Any, n: Any) -> Any:
    """Two values that change places in each step."""
    return tf.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a + b * 0.0), (0, x, x * 2.0))[1:]


@traced(*VECTOR_AND_STEPS, draw=steps)
def rotated(x: Any, n: Any) -> Any:
    """Three values that move on by one place, as they are."""
    return tf.while_loop(lambda i, *_: i < n, lambda i, a, b, c: (i + 1, b, c, a), (0, x, x * 2.0, x - 1.0))[1:]


@traced(*VECTOR_AND_STEPS, draw=steps)
def repeated(x: Any, n: Any) -> Any:
    """One tensor that becomes two carried values."""

    def step(i: Any, a: Any, b: Any) -> Any:
        c = a * 0.5 + b
        return i + 1, c, c

    return tf.while_loop(lambda i, a, b: i < n, step, (0, x, x * 2.0))[1:]


@traced(*VECTOR_AND_STEPS, draw=steps)
def constant_carry(x: Any, n: Any) -> Any:
    """A carried value that becomes a constant, and one that stays."""
    start = (0, x, x * 2.0, x + 1.0)
    return tf.while_loop(
        lambda i, *_: i < n, lambda i, a, b, c: (i + 1, tf.constant([1.0, 2.0, 3.0]), a + b, c), start
    )[1:]


@traced(*VECTOR_AND_STEPS, draw=steps)
def nested(x: Any, n: Any) -> Any:
    """A loop in a loop, as many steps as the outer one has made."""

    def inner(i: Any, v: Any) -> Any:
        return tf.while_loop(lambda j, _: j < i, lambda j, w: (j + 1, w * 0.5 + 1.0), (0, v))[1]

    return tf.while_loop(lambda i, _: i < n, lambda i, v: (i + 1, inner(i, v) - x), (0, x))[1]


@traced(*VECTOR_AND_STEPS, draw=steps, autograph=True)
def early_exit(x: Any, n: Any) -> Any:
    """A loop that ends with `break`, skips with `continue` and returns from within."""
    total = tf.zeros([3])
    for i in tf.range(n):
        if i % 3 == 1:
            continue
        total += x * tf.cast(i, tf.float32)
        if tf.reduce_sum(total) > 5.0:
            break
    return total


@traced(*VECTOR_AND_STEPS, draw=steps)
def branch_in_loop(x: Any, n: Any) -> Any:
    """A branch in each step, one of which gives its operand back."""

    def step(i: Any, v: Any) -> Any:
        return i + 1, tf.cond(tf.reduce_sum(v) > 0.0, lambda: v - 1.0, lambda: v)

    return tf.while_loop(lambda i, _: i < n, step, (0, x))[1]


@traced(*VECTOR_AND_STEPS, draw=steps)
def loop_in_branch(x: Any, n: Any) -> Any:
    """A loop in one branch, a constant in the other."""

    def loop() -> Any:
        return tf.while_loop(lambda i, _: i < n, lambda i, v: (i + 1, v + x), (0, x))[1]

    return tf.cond(tf.reduce_sum(x) > 0.0, loop, lambda: tf.constant([1.0, 2.0, 3.0]))


@traced(*VECTOR_AND_STEPS, draw=steps)
def chosen(x: Any, n: Any) -> Any:
    """One of four branches by number, the last one for all others; one gives its operand, one a constant."""
    branches = [lambda: x * 2.0, lambda: x, lambda: tf.constant([7.0, 8.0, 9.0]), lambda: tf.reverse(x, [0])]
    return tf.switch_case(n, branches)


@traced(*VECTOR_AND_STEPS, draw=steps)
def nested_choice(x: Any, n: Any) -> Any:
    """A choice in a choice, both by one number."""
    inner = lambda: tf.switch_case(n - 1, [lambda: x + 1.0, lambda: x + 2.0, lambda: x + 3.0])  # noqa: E731
    return tf.switch_case(n, [lambda: x, inner])


@traced(*VECTOR_AND_STEPS, draw=steps)
def cases(x: Any, n: Any) -> Any:
    """`tf.case`: the first condition that holds."""
    return tf.case([(n > 3, lambda: x * 2.0), (n > 1, lambda: x - 1.0)], default=lambda: x * 0.0)


@traced(x(3))
def two_results(x: Any) -> Any:
    """Branches that give one tensor twice, and operands at other places."""
    a, b, c = tf.cond(
        tf.reduce_sum(x) > 0.0, lambda: (x, x, x * 2.0), lambda: (x * 3.0, x, tf.constant([1.0, 1.0, 2.0]))
    )
    return a + b, b, c


@traced(x(3))
def constants_alone(x: Any) -> Any:
    """Branches that compute nothing."""
    chosen = tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.constant([1.0, 2.0]), lambda: tf.constant([3.0, 4.0]))
    return chosen, x * 2.0


@traced(x(3))
def constant_expressions(x: Any) -> Any:
    """Branches whose result an operator makes of constants: the shape of a tensor of zeros."""
    chosen = tf.cond(
        tf.reduce_sum(x) > 0.0,
        lambda: (tf.fill(tf.shape(x) * 2, 2.0), tf.constant(3)),
        lambda: (tf.zeros([6]), tf.constant(4)),
    )
    return *chosen, x * 2.0


@traced(x(None, 3))
def open_branches(x: Any) -> Any:
    """Branches over a batch of any size."""
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.reverse(x, [0]), lambda: x * tf.reduce_max(x, 1, True))


@traced(x(None, 3))
def unequal_branches(x: Any) -> Any:
    """Branches whose results differ in size."""
    chosen = tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.concat([x, x], 0), lambda: x[:1])
    return chosen * 2.0


@traced(x(None, 3))
def rows(x: Any) -> Any:
    """A loop over as many rows as there are, with a sum and a maximum."""
    start = (0, tf.zeros([3]), tf.fill([3], -100.0))
    body = lambda i, s, m: (i + 1, s + x[i], tf.maximum(m, x[i]))  # noqa: E731
    return tf.while_loop(lambda i, *_: i < tf.shape(x)[0], body, start)[1:]


@traced(x(None, 3))
def open_carry(x: Any) -> Any:
    """A carried value whose first size is open."""
    return tf.while_loop(lambda v: tf.reduce_sum(v) < 50.0, lambda v: (v * 1.5 + 2.0,), (x,))[0]


@traced(x(2, 3), x(dtype=tf.int32, name="n"))
def growing(x: Any, n: Any) -> Any:
    """A carried value that is a row longer in each step."""
    return tf.while_loop(
        lambda i, _: i < n,
        lambda i, v: (i + 1, tf.concat([v, v[-1:] * 0.5], 0)),
        (0, x),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3])),
    )[1]


@traced(x(None, 3), x(dtype=tf.int32, name="n"))
def growing_open(x: Any, n: Any) -> Any:
    """One more row in each step, of a batch of any size, and what it sums up to."""

    def step(i: Any, v: Any, s: Any) -> Any:
        row = tf.reduce_mean(v, 0, keepdims=True)
        return i + 1, tf.concat([v, row], 0), s + tf.cast(tf.shape(v)[0], tf.float32)

    return tf.while_loop(
        lambda i, *_: i < n,
        step,
        (0, x, 0.0),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3]), tf.TensorShape([])),
    )[1:]


@traced(x(4, dtype=tf.int32), x(4, dtype=tf.int32, name="y"))
def greatest_common_divisor(x: Any, y: Any) -> Any:
    """Integers and bools carried, the end known from data alone."""

    def step(a: Any, b: Any, _: Any) -> Any:
        done = tf.equal(b, 0)
        rest = tf.where(done, a, tf.math.floormod(a, tf.where(done, 1, b)))
        return tf.where(done, a, b), tf.where(done, b, rest), tf.reduce_all(done)

    return tf.while_loop(lambda a, b, done: tf.logical_not(done), step, (x, y, tf.constant(False)))[0]


@traced(x(3))
def called(x: Any) -> Any:
    """Functions that call functions, one of them twice."""
    inner = tf.function(lambda v: tf.nn.relu(v) + 1.0, autograph=False)
    outer = tf.function(lambda v: inner(v) * inner(v * 2.0), autograph=False)
    return outer(x) - inner(x)


@traced(x(None, dtype=tf.float32))
def mapped(x: Any) -> Any:
    """`tf.map_fn` with a branch in it."""
    return tf.map_fn(lambda v: tf.cond(v > 0.0, lambda: tf.sqrt(v), lambda: v * v), x)


@traced(x(None, 3))
def folded(x: Any) -> Any:
    """`tf.foldl` and `tf.foldr`."""
    return tf.foldl(lambda a, v: a * 0.5 + v, x), tf.foldr(lambda a, v: a * 0.5 + v, x)


@traced(*VECTOR_AND_STEPS, draw=steps)
def newton(x: Any, n: Any) -> Any:
    """A root by Newton's method, until it moves no more or n steps are done."""
    target = tf.abs(x) + 1.0

    def step(i: Any, root: Any, moved: Any) -> Any:
        better = 0.5 * (root + target / root)
        return i + 1, better, tf.reduce_max(tf.abs(better - root))

    keep = lambda i, root, moved: tf.logical_and(i < n, moved > 1e-3)  # noqa: E731
    return tf.while_loop(keep, step, (0, target, 1.0))[1]


def _for(start: Any, limit: Any, delta: Any, values: list[Any], body: Callable[..., Any]) -> list[Any]:
    """The loop of TensorFlow 1 that counts for itself; lingvo's embeddings are written with it."""
    from tensorflow.python.framework.function import Defun
    from tensorflow.python.ops.functional_ops import For

    return list(For(start, limit, delta, values, Defun(tf.int32, *(v.dtype for v in values))(body)))


def _counts(seed: int) -> Arrays:
    """A vector, and ways to count: up, in larger steps, down, and not at all."""
    start, limit, delta = ((0, 3, 1), (1, 6, 2), (4, -1, -3), (2, 2, 1))[seed % 4]
    counts = {"n": limit, "start": start, "delta": delta}
    return {**steps(seed), **{name: np.asarray(value, np.int32) for name, value in counts.items()}}


@traced(*VECTOR_AND_STEPS, x(dtype=tf.int32, name="start"), x(dtype=tf.int32, name="delta"), draw=_counts)
def counted_either_way(x: Any, n: Any, start: Any, delta: Any) -> Any:
    """A For whose numbers are inputs, with one in its body that counts down."""

    def inner(i: Any, a: Any) -> Any:
        return tf.sin(a) + tf.cast(i, tf.float32)

    return _for(start, n, delta, [x], lambda i, a: _for(i, -2, -1, [a], inner)[0])[0]


@traced(x(3, dtype=tf.int32, name="ids"), draw=lambda seed: {"ids": np.array([seed % 5, 4, 1], np.int32)})
def rows_in_place(ids: Any) -> Any:
    """Rows of a table, written one by one, as lingvo's EmbFprop writes them."""
    table = tf.constant(np.arange(10, dtype=np.float32).reshape(5, 2))
    out = tf.raw_ops.Empty(shape=[3, 2], dtype=tf.float32, init=True)

    def body(i: Any, table: Any, ids: Any, out: Any) -> Any:
        return table, ids, tf.raw_ops.InplaceUpdate(x=out, i=[i], v=tf.gather(table, [ids[i]]))

    return _for(0, 3, 1, [table, ids, out], body)[2]
