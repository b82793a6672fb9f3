"""Forms of control flow: branches, loops that carry several values, loops in loops, functions mapped over rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.properties.choose import Chooser
from tests.properties.forms import SPECIAL, Form
from tests.properties.values import Step, Unfit, Value


def _is_float(v: Value) -> bool:
    return v.dtype == np.float32 and v.rank >= 1


_BODIES: dict[str, Callable[[Any], Any]] = {
    "negated": lambda x: -x,
    "halved": lambda x: x * 0.5,
    "shifted": lambda x: x + 1.0,
    "reversed": lambda x: tf.reverse(x, [-1]),
    "softmax": lambda x: tf.nn.softmax(x),
    "summed": lambda x: x + tf.reduce_sum(x, -1, keepdims=True),
}


def branch(c: Chooser) -> Step:
    """tf.cond on a computed scalar."""
    x = c.value(_is_float)
    flag = c.value(lambda v: v.dtype == np.bool_)
    then, otherwise = c.one_of(*_BODIES), c.one_of(*_BODIES)
    return Step("cond", _cond, (x, flag), {"then": then, "otherwise": otherwise}, SPECIAL)


def _cond(x: Any, flag: Any, then: str, otherwise: str) -> Any:
    return tf.cond(tf.reduce_any(flag), lambda: _BODIES[then](x), lambda: _BODIES[otherwise](x))


def loop(c: Chooser) -> Step:
    """tf.while_loop, with a count that is known or computed."""
    x = c.value(_is_float)
    body = c.one_of(*_BODIES)
    counts = [i for i, v in enumerate(c.pool) if v.dtype == np.int32 and v.rank == 0]
    if counts and c.flag():
        return Step("loop_while", _loop_while, (x, counts[-1]), {"body": body}, SPECIAL)
    return Step("loop", _loop, (x,), {"body": body, "count": c.integer(0, 3)}, SPECIAL)


def _loop(x: Any, body: str, count: int) -> Any:
    invariant = (tf.TensorShape([]), tf.TensorShape(x.shape))
    return tf.while_loop(
        lambda i, _: i < count, lambda i, y: (i + 1, _BODIES[body](y)), (0, x), shape_invariants=invariant
    )[1]


def _loop_while(x: Any, count: Any, body: str) -> Any:
    limit = tf.minimum(count, 3)
    return tf.while_loop(lambda i, _: i < limit, lambda i, y: (i + 1, _BODIES[body](y)), (0, x))[1]


def case(c: Chooser) -> Step:
    """tf.switch_case on a computed number; beyond the last one is the last one."""
    x, index = c.value(_is_float), c.value(lambda v: v.dtype == np.int32 and v.rank == 0)
    names = [c.one_of(*_BODIES) for _ in range(3)]
    return Step("switch_case", _case, (x, index), {"names": names}, SPECIAL)


def _case(x: Any, index: Any, names: list[str]) -> Any:
    return tf.switch_case(index, [lambda n=n: _BODIES[n](x) for n in names])


def loop_of_several(c: Chooser) -> Step:
    """A loop that carries a counter, a value, its sum and another value, and stops early."""
    x, y = c.value(_is_float), c.value(_is_float)
    options = {"body": c.one_of(*_BODIES), "limit": c.one_of(2.0, 8.0), "most": c.integer(1, 4)}
    return Step("loop_of_several", _loop_of_several, (x, y), options, SPECIAL)


def _loop_of_several(x: Any, y: Any, body: str, limit: float, most: int) -> Any:
    def goes_on(i: Any, x: Any, total: Any, y: Any) -> Any:
        return tf.logical_and(i < most, total < limit)

    def step(i: Any, x: Any, total: Any, y: Any) -> Any:
        return i + 1, _BODIES[body](x), total + tf.reduce_max(tf.abs(x)), tf.cast(i, tf.float32) - y

    return tf.while_loop(goes_on, step, (0, x, 0.25, y))


def loop_in_loop(c: Chooser) -> Step:
    """Two loops, one in the other."""
    names = {"outer": c.one_of(*_BODIES), "inner": c.one_of(*_BODIES)}
    return Step("loop_in_loop", _loop_in_loop, (c.value(_is_float),), names, SPECIAL)


def _loop_in_loop(x: Any, outer: str, inner: str) -> Any:
    def step(i: Any, y: Any) -> Any:
        turned = tf.while_loop(lambda k, _: k < i, lambda k, z: (k + 1, _BODIES[inner](z)), (0, y))[1]
        return i + 1, _BODIES[outer](turned)

    return tf.while_loop(lambda i, _: i < 3, step, (0, x))[1]


def branch_in_loop(c: Chooser) -> Step:
    """A choice in every turn."""
    names = {"even": c.one_of(*_BODIES), "odd": c.one_of(*_BODIES)}
    return Step("branch_in_loop", _branch_in_loop, (c.value(_is_float),), names, SPECIAL)


def _branch_in_loop(x: Any, even: str, odd: str) -> Any:
    def step(i: Any, y: Any) -> Any:
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: _BODIES[even](y), lambda: _BODIES[odd](y))

    return tf.while_loop(lambda i, _: i < 3, step, (0, x))[1]


def mapped(c: Chooser) -> Step:
    """tf.map_fn over the rows, of which there may be any number."""
    x = c.value(lambda v: v.dtype == np.float32 and v.rank >= 2)
    return Step("map_fn", _mapped, (x,), {"body": c.one_of(*_BODIES)}, SPECIAL)


def _mapped(x: Any, body: str) -> Any:
    return tf.map_fn(lambda row: _BODIES[body](row), x)


def collected(c: Chooser) -> Step:
    """A TensorArray written in a loop over time, with a state."""
    x = c.value(lambda v: v.dtype == np.float32 and v.rank >= 2 and v.shape[0] is not None)
    if (c.pool[x].shape[0] or 9) > 6:
        raise Unfit("too many turns")
    return Step("scan", _collected, (x,), {"body": c.one_of(*_BODIES), "reverse": c.flag()}, SPECIAL)


def _collected(x: Any, body: str, reverse: bool) -> Any:
    return tf.scan(lambda state, row: _BODIES[body](state) * 0.5 + row, x, reverse=reverse)


FORMS: tuple[Form, ...] = (branch, case, loop, loop_of_several, loop_in_loop, branch_in_loop, mapped, collected)
