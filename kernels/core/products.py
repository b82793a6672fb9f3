"""How many products of two numbers that are added up (MACs) an equation computes, for given sizes."""

from __future__ import annotations

from math import prod

from jfuse.ir.graph import Const, Eqn
from jfuse.ir.types import TensorType


def products_of(eqn: Eqn, inputs: list[TensorType | None], outputs: list[TensorType]) -> int:
    """The multiply-accumulates of one run of an equation, its bodies aside.

    inputs, outputs: the types with numbers for all sizes. Products of elements (MUL), which nothing adds up, are none.
    """
    if eqn.op.cell:
        return _of_cell(eqn, outputs)
    if eqn.op.product == "windows":
        return _of_windows(eqn, inputs, outputs[0])
    if eqn.op.product == "matrices":
        x = inputs[0]
        assert x is not None, "an operand"
        transposed = eqn.params.get("adj_x", False)
        return _count(outputs[0]) * int(x.shape[-2 if transposed else -1] if x.shape else 1)
    return 0


def _of_windows(eqn: Eqn, inputs: list[TensorType | None], output: TensorType) -> int:
    """Products of a convolution: the weights of a channel for each element of its result, or operand if transposed."""
    weights = inputs[eqn.op.operand_index("weights")]
    transposed = eqn.op.operand_at(0).decides_size
    each = inputs[2] if transposed else output
    assert weights is not None, "an operand"
    assert each is not None, "an operand"
    return _count(each) * _count(weights) // int(each.shape[-1])


def _of_cell(eqn: Eqn, outputs: list[TensorType]) -> int:
    """Of a recurrent operator: each matrix of weights once for each row and step."""
    matrices = sum(a.array.size for a in eqn.inputs if isinstance(a, Const) and a.array.ndim == 2)
    return matrices * prod(int(size) for size in outputs[0].shape[:-1])


def _count(of: TensorType) -> int:
    return prod(int(size) for size in of.shape)
