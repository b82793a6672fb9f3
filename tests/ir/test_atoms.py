"""Constants in NumPy code: what rules do with arrays they can do with Consts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.graph import Const
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops

ARRAY = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "code",
    [
        *(
            lambda x, f=f: f(x, x)
            for f in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt)
        ),
        *(
            lambda x, f=f: f(2, x)
            for f in (operator.add, operator.sub, operator.mul, operator.truediv, operator.mod, operator.ge)
        ),
        lambda x: np.float32(2) * x - ARRAY,
        lambda x: x == 2,
        lambda x: x != ARRAY,
        lambda x: -x,
        lambda x: x @ x.T,
        lambda x: x[1:, ::2],
        lambda x: [*x],
        lambda x: np.split(x.T, 3),
        lambda x: np.stack([x, x]),
        lambda x: x.astype(np.float64).dtype,
        lambda x: x.reshape(3, 2),
        lambda x: (len(x), x.shape, x.ndim, x.size, x.dtype, x.tolist()),
        lambda x: float(x[0, 0]) + int(np.asarray(x).sum()),
    ],
)
def test_numpy_code_takes_a_const_as_its_array(code: Callable[[Any], Any]) -> None:
    np.testing.assert_equal(code(Const(ARRAY)), code(ARRAY))


def test_the_array_is_handed_out_as_it_is() -> None:
    const = Const(ARRAY)
    assert np.asarray(const) is ARRAY
    assert np.array(const) is not ARRAY


def test_consts_are_equal_where_they_are_one_object() -> None:
    const, other = Const(np.zeros(0, np.float32)), Const(np.zeros(0, np.float32))
    assert const == const
    assert const != other
    assert len({const, other}) == 2
    assert const in (other, const)


@pytest.mark.parametrize("element", [0.0, 2.0, np.nan, False, True])
def test_one_element_is_as_true_as_in_numpy(element: float) -> None:
    for array in (np.asarray(element), np.full((1, 1), element)):
        assert bool(Const(array)) is bool(array)


@pytest.mark.parametrize("size", [0, 2])
def test_the_truth_of_other_sizes_is_an_error(size: int) -> None:
    with pytest.raises(TypeError, match=rf"the truth of Const\(f32\[{size}\]\), which has {size} elements, is ambig"):
        bool(Const(np.ones(size, np.float32)))


def test_an_op_on_variables_keeps_the_const_with_its_name() -> None:
    const = Const(ARRAY, "dense/kernel")
    graph = trace_graph(lambda x: ops.add(x, const), [TensorType((2, 3), DType.f32)])
    assert graph.eqns[0].inputs[1] is const


def test_an_op_on_constants_alone_computes() -> None:
    np.testing.assert_array_equal(ops.add(Const(ARRAY), Const(ARRAY)), 2 * ARRAY)
