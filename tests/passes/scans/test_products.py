"""Fewer products in a step: however a cell is spelled, one product of h is left in the loop and one of x outside."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from tests.passes.scans.steps import RNG, WIDTH, Loop, check, hoist, inside, names, scans, sigmoid

WX, WH = (RNG.standard_normal((3 * WIDTH, WIDTH)).astype(np.float32) / 3 for _ in range(2))
BX, BH = (RNG.standard_normal(3 * WIDTH).astype(np.float32) for _ in range(2))
EACH_X, EACH_H = np.split(WX, 3), np.split(WH, 3)
EACH_BX, EACH_BH = np.split(BX, 3), np.split(BH, 3)


def slices(x: Any) -> list[Any]:
    """The three parts of x, as Keras spells it."""
    ends = [(0, 0), (0, WIDTH), (0, 2 * WIDTH), (0, 0)]
    begin_masks, end_masks = (3, 1, 1), (1, 1, 3)
    return [
        ops.strided_slice(x, ends[i], ends[i + 1], (1, 1), begin_mask=begin_masks[i], end_mask=end_masks[i])
        for i in range(3)
    ]


def finished(h: Any, z: Any, r: Any, x: Any, inner: Any) -> Any:
    n = ops.tanh(ops.add(x, ops.mul(ops.logistic(r), inner)))
    z = ops.logistic(z)
    h = ops.add(ops.mul(z, h), ops.mul(ops.sub(1.0, z), n))
    return h, h


def one_matrix(h: Any, x: Any) -> Any:
    xz, xr, xn = ops.split(1, ops.add(ops.fully_connected(x, WX), BX), num_splits=3)
    hz, hr, hn = slices(ops.add(ops.fully_connected(h, WH), BH))
    return finished(h, ops.add(xz, hz), ops.add(xr, hr), xn, hn)


def matrix_each(h: Any, x: Any) -> Any:
    xz, xr, xn = (ops.add(ops.fully_connected(x, w), b) for w, b in zip(EACH_X, EACH_BX, strict=True))
    hz, hr, hn = (ops.fully_connected(h, w, b) for w, b in zip(EACH_H, EACH_BH, strict=True))
    return finished(h, ops.add(xz, hz), ops.add(xr, hr), xn, hn)


def gru(h: np.ndarray, x: np.ndarray) -> Any:
    xz, xr, xn = np.split(x @ WX.T + BX, 3, axis=1)
    hz, hr, hn = np.split(h @ WH.T + BH, 3, axis=1)
    z, r = sigmoid(xz + hz), sigmoid(xr + hr)
    h = z * h + (1 - z) * np.tanh(xn + r * hn)
    return h, h


def gates_each(h: Any, c: Any, x: Any) -> Any:
    """Four gates with a matrix each for x and h; c reads two of them."""
    a, b, d = (
        ops.add(ops.add(ops.fully_connected(x, u), ops.fully_connected(h, w)), bias)
        for u, w, bias in zip(EACH_X, EACH_H, EACH_BX, strict=True)
    )
    c = ops.add(ops.mul(ops.logistic(a), c), ops.tanh(b))
    h = ops.mul(ops.logistic(d), ops.tanh(c))
    return h, c, h


def written_gates(h: np.ndarray, c: np.ndarray, x: np.ndarray) -> Any:
    a, b, d = np.split(x @ WX.T + h @ WH.T + BX, 3, axis=1)
    c = sigmoid(a) * c + np.tanh(b)
    h = sigmoid(d) * np.tanh(c)
    return h, c, h


def of_both(h: Any, x: Any) -> Any:
    """One product of [x, h], as TF1's cells have it."""
    both = ops.concatenation(x, h, axis=-1)
    h = ops.tanh(ops.fully_connected(both, np.concatenate([EACH_X[0], EACH_H[0]], axis=1), EACH_BX[0]))
    return h, h


def written_of_both(h: np.ndarray, x: np.ndarray) -> Any:
    h = np.tanh(x @ EACH_X[0].T + h @ EACH_H[0].T + EACH_BX[0])
    return h, h


LOOPS = {
    "one_matrix": (Loop(one_matrix, gru, states=1), 15),
    "matrix_each": (Loop(matrix_each, gru, states=1), 14),
    "gates_each": (Loop(gates_each, written_gates, states=2), 10),
    "of_both": (Loop(of_both, written_of_both, states=1), 3),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", LOOPS)
def test_one_product_in_the_loop(name: str, reverse: bool) -> None:
    loop, operators = LOOPS[name]
    graph = hoist(loop.graph(reverse=reverse))
    (eqn,) = scans(graph)
    assert inside(eqn).count("fully_connected") == 1
    assert names(graph).count("fully_connected") == 1
    assert len(eqn.inputs) == loop.states + 1, "one step input"
    assert len(inside(eqn)) <= operators, Counter(inside(eqn))
    check(loop, graph, reverse=reverse, litert=not reverse)


def test_products_of_different_values_stay() -> None:
    def step(h: Any, x: Any) -> Any:
        n = ops.tanh(ops.add(ops.fully_connected(h, EACH_H[0]), x))
        h = ops.tanh(ops.fully_connected(n, EACH_H[1]))
        return h, h

    def written(h: np.ndarray, x: np.ndarray) -> Any:
        h = np.tanh(np.tanh(h @ EACH_H[0].T + x) @ EACH_H[1].T)
        return h, h

    loop = Loop(step, written, states=1)
    graph = hoist(loop.graph())
    assert inside(scans(graph)[0]).count("fully_connected") == 2
    check(loop, graph, litert=False)


def test_slices_that_leave_something_out_stay() -> None:
    def step(h: Any, x: Any) -> Any:
        gates = ops.fully_connected(h, WH)
        first, second = (
            ops.strided_slice(gates, (0, i * WIDTH), (0, (i + 1) * WIDTH), (1, 1), begin_mask=1, end_mask=1)
            for i in (0, 2)
        )
        h = ops.tanh(ops.add(ops.mul(first, second), x))
        return h, h

    def written(h: np.ndarray, x: np.ndarray) -> Any:
        first, _, second = np.split(h @ WH.T, 3, axis=1)
        h = np.tanh(first * second + x)
        return h, h

    loop = Loop(step, written, states=1)
    graph = hoist(loop.graph())
    assert inside(scans(graph)[0]).count("strided_slice") == 2
    check(loop, graph, litert=False)
