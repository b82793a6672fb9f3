"""What LiteRT computes when it allocates tensors, and which results it sizes by that: as ops and passes say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from jfuse.ir.dims import symbol
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import builtin_ops
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import program

_N = symbol("N")


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def first(shape: Any) -> Any:
    return ops.strided_slice(shape, [0], [1], [1])


def scalar(shape: Any) -> Any:
    return ops.strided_slice(shape, [0], [1], [1], shrink_axis_mask=1)


THEN: Mapping[str, Callable[[Any], Any]] = {
    "CONCATENATION": lambda s: first(ops.concatenation(s, ints(4), axis=0)),
    "GATHER": lambda s: ops.gather(s, ints(0)),
    "MUL": lambda s: ops.mul(first(s), ints(1)),
    "RANK": lambda s: ops.gather(s, ops.reshape(ops.mul(ops.rank(s), np.int32(0)), ints(1))),
    "RESHAPE": lambda s: ops.reshape(scalar(s), ints(1)),
    "SHAPE": lambda s: ops.mul(first(s), ops.shape(ints(0))),
    "STRIDED_SLICE": first,
}
"""From the shape i32[3] of an input the vector of its first size, by the kernel of a builtin."""

LATER: Mapping[str, Callable[[Any], Any]] = {
    "ADD": lambda s: ops.add(first(s), ints(0)),
    "EXPAND_DIMS": lambda s: ops.expand_dims(scalar(s), np.int32(0)),
    "FLOOR_DIV": lambda s: ops.floor_div(first(s), ints(1)),
    "PACK": lambda s: ops.pack(scalar(s)),
    "SQUEEZE": lambda s: ops.reshape(ops.squeeze(first(s), squeeze_dims=(0,)), ints(1)),
}
"""The same by others, which run in the invoke."""


def two(x: Any) -> Any:
    return ops.strided_slice(ops.shape(x), [0], [2], [1])


def whole(x: Any) -> Any:
    return ops.concatenation(two(x), ints(4), axis=0)


def around(x: Any) -> Any:
    return ops.reshape(ops.concatenation(ints(0, 0), two(x), ints(0, 0), axis=0), ints(3, 2))


def image(x: Any) -> Any:
    return ops.reshape(x, ops.concatenation(two(x), ints(2, 2), axis=0))


ZERO, ONE = np.float32(0), np.int32(1)
SIZED: Mapping[str, Callable[[Any], Any]] = {
    "BROADCAST_TO": lambda x: ops.broadcast_to(np.ones((1, 1, 4), np.float32), whole(x)),
    "FILL": lambda x: ops.fill(whole(x), ZERO),
    "PAD": lambda x: ops.pad(x, around(x)),
    "PADV2": lambda x: ops.padv2(x, around(x), ZERO),
    "RANGE": lambda x: ops.range_(np.int32(0), scalar(ops.shape(x)), ONE),
    "RESHAPE": lambda x: ops.reshape(x, whole(x)),
    "RESIZE_BILINEAR": lambda x: ops.resize_bilinear(image(x), two(x)),
    "RESIZE_NEAREST_NEIGHBOR": lambda x: ops.resize_nearest_neighbor(image(x), two(x)),
    "STRIDED_SLICE": lambda x: ops.strided_slice(x, ints(0, 0, 0), whole(x), ints(1, 1, 1)),
    "TILE": lambda x: ops.tile(np.ones((1, 1, 1), np.float32), whole(x)),
}


def is_planned(function: Callable[[Any], Any]) -> bool:
    """Whether the result has memory before the first invoke, and the right shape after one, at sizes that grow."""
    types = TensorType((symbol("B"), _N, 4), DType.f32)
    data = to_bytes(program(function, types))
    runtime = Interpreter(
        model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    ((given,), (result,)) = runtime.get_input_details(), runtime.get_output_details()
    found = []
    for size in (2, 5):
        runtime.resize_tensor_input(given["index"], [size, 6, 4])
        runtime.allocate_tensors()
        try:
            found.append(runtime.get_tensor(result["index"]).shape)
        except ValueError:  # there is no memory yet
            return False
        runtime.set_tensor(given["index"], np.ones((size, 6, 4), np.float32))
        runtime.invoke()
        assert runtime.get_tensor(result["index"]).shape == found[-1]
    first, second = found
    return bool(first != second)


def reshaped(vector: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Reshapes an input by its first size, as a kernel gives it."""
    return lambda x: ops.add(ops.reshape(x, ops.concatenation(vector(ops.shape(x)), ints(-1), axis=0)), np.float32(1))


@pytest.mark.parametrize("builtin", [name for name, op in builtin_ops().items() if op.at_allocation])
def test_is_computed_at_allocation(builtin: str) -> None:
    assert is_planned(reshaped(THEN[builtin]))


@pytest.mark.parametrize("builtin", LATER)
def test_is_not(builtin: str) -> None:
    assert not builtin_ops()[builtin].at_allocation
    assert not is_planned(reshaped(LATER[builtin]))


@pytest.mark.parametrize("builtin", [name for name, op in builtin_ops().items() if op.sized_at_allocation])
def test_is_sized_at_allocation(builtin: str) -> None:
    assert is_planned(SIZED[builtin])
