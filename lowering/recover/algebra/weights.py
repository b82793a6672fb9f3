"""Extracts the weights of gates from linear forms, exact to the bit and transposed into TFLite's layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jfuse.ir.graph import Var
from jfuse.lowering.recover.algebra.expressions import Activation, Expr, Leaf, Norm
from jfuse.lowering.recover.algebra.forms import AffineForm, row_size
from jfuse.lowering.rules import need


@dataclass(frozen=True)
class RecoveredGate:
    """The operand of a nonlinearity: z = x W' + h R' + c * p + b, or with a norm norm(x W' + h R' + c * p + d) * n + b.

    weights: f64[units, inputs]; recurrent: f64[units, outputs]; peephole, bias, norm: f64[units], the latter two None
    where there is none; inner_bias: d, None without a norm.
    """

    weights: np.ndarray
    recurrent: np.ndarray
    peephole: np.ndarray
    bias: np.ndarray
    norm: np.ndarray | None = None
    inner_bias: np.ndarray | None = None


def leaf_of(operand: Expr) -> Leaf | None:
    """The affine value in the operand of a nonlinearity: all of it, or the operand of its layer norm."""
    if isinstance(operand, Norm):
        return operand.leaf
    return operand if isinstance(operand, Leaf) else None


def gate_of(
    entering: Activation, forms: Mapping[Var, AffineForm], x: Var, h: Var, cells: tuple[Var, ...]
) -> RecoveredGate:
    """The weights of a gate. cells: the cell states that it may read, element by element."""
    leaf = leaf_of(entering.operand)
    assert leaf is not None, "operands of gates were checked"
    form = forms[leaf.var]
    columns = columns_of(leaf, form.bias.size)

    def matrix(source: Var) -> np.ndarray:
        coefficients = form.matrices.get(source)
        return np.zeros((row_size(source.type), columns.size)) if coefficients is None else coefficients[:, columns]

    peephole = np.zeros(columns.size)
    for cell in cells:
        square = matrix(cell)
        need(is_diagonal(square), "peephole", want="a gate that reads c element by element", got="a full matrix")
        peephole = peephole + np.diagonal(square)
    bias, scale = form.bias[columns], entering.scale
    weights, recurrent = matrix(x).T, matrix(h).T
    if not isinstance(entering.operand, Norm):
        return RecoveredGate(scale * weights, scale * recurrent, scale * peephole, scale * bias)
    norm, shift = (np.frombuffer(b, np.float64) for b in (entering.operand.scale, entering.operand.shift))
    return RecoveredGate(
        weights, recurrent, peephole, scale * shift, scale * norm, bias - bias[0] if _is_even(bias) else bias
    )


def columns_of(leaf: Leaf, width: int) -> np.ndarray:
    """The column of each unit in a value of that many; raises where rows of the leaf are not rows of the batch."""
    places = np.frombuffer(leaf.index, np.int64)
    rows = len(np.unique(places // width))
    need(places.size % rows == 0, "gate_layout", want="the gates of a row in that row", got=str(leaf.var.type))
    by_row = places.reshape(rows, -1) - width * np.arange(rows)[:, None]
    fits = (by_row == by_row[0]).all() and (by_row[0] >= 0).all() and (by_row[0] < width).all()
    need(fits, "gate_layout", want="the gates of a row in that row", got=str(leaf.var.type))
    columns: np.ndarray = by_row[0]
    return columns


def is_diagonal(matrix: np.ndarray) -> bool:
    """Whether a matrix is square and zero outside of its diagonal."""
    return matrix.shape[0] == matrix.shape[1] and not (matrix - np.diag(np.diagonal(matrix))).any()


def need_products(weights: Sequence[np.ndarray], recurrent: Sequence[np.ndarray]) -> None:
    """Refuse a single step whose gates take the input or the state as it is, element by element.

    Such a step is an addition and an activation: the matrices would be made up, and a zero of theirs times an infinite
    element is NaN.
    """
    for name, matrices in (("input", weights), ("state", recurrent)):
        got = f"gates that take each element of the {name} by itself"
        need(any(map(_mixes, matrices)), "single_step_weights", want=f"weights of the {name}", got=got, near=4)


def _mixes(matrix: np.ndarray) -> bool:
    """Whether a unit reads several values, or a value is read by several units, or there is one of each."""
    used = matrix != 0
    return matrix.size == 1 or bool((used.sum(0) > 1).any() or (used.sum(1) > 1).any())


def single(array: np.ndarray) -> np.ndarray:
    """The array in f32, or as it is where it was computed in the body and f32 would round it."""
    exact = np.ascontiguousarray(array)
    narrow = exact.astype(np.float32)
    return narrow if np.array_equal(narrow, exact) else exact


def _is_even(bias: np.ndarray) -> bool:
    """Whether a bias is the same for all units: a norm takes it away again."""
    return bool((bias == bias[0]).all())
