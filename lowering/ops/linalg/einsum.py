"""Einsum: diagonals, then products of two operands at a time, each a matrix product or one of elements."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from jfuse.ir.dims import product
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.linalg.matmul import matrix_product
from jfuse.lowering.ops.linalg.matrix import diagonal_of, lower_matrix_diag
from jfuse.lowering.rule_tools.query import is_constant, rank
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.lowering.rules import lowers


@lowers("Einsum", "XlaEinsum")
def lower_einsum(*operands: Array, equation: str) -> Array:
    """The products of elements that agree in their labels, summed over the labels that the result lacks.

    equation: `abc,cd->abd`; `...` stands for leading axes, which broadcast. Several operands from left to right.
    """
    labels, result_labels = parse_equation(equation, [rank(x) for x in operands])
    terms = [_distinct(x, own) for x, own in zip(operands, labels, strict=True)]
    while len(terms) > 1:
        (x, x_labels), (y, y_labels), *others = terms
        needed = result_labels + "".join(own for _, own in others)
        x, x_labels = _summed(x, x_labels, needed + y_labels)
        y, y_labels = _summed(y, y_labels, needed + x_labels)
        if is_constant(x) and not is_constant(y):
            x, x_labels, y, y_labels = y, y_labels, x, x_labels  # weights stand on the right
        terms = [_product(x, x_labels, y, y_labels, needed), *others]
    x, own = _summed(*terms[0], result_labels)
    return _repeated(x, own, result_labels)


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, one letter for each axis, dots replaced by letters of their own."""
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    free = [c for c in string.ascii_letters if c not in equation]
    hidden = [r - len(t.replace("...", "")) if "..." in t else 0 for t, r in zip(terms, ranks, strict=True)]
    dots = "".join(free[: max(hidden)])
    labels = [t.replace("...", dots[len(dots) - n :]) for t, n in zip(terms, hidden, strict=True)]
    return labels, right.replace("...", dots)


def _distinct(x: Array, labels: str) -> tuple[Array, str]:
    """An operand with the diagonal of axes that share a label."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [i for i in range(len(labels)) if i not in (first, second)]
            x = diagonal_of(ops.transpose(x, np.array([*rest, first, second], np.int32)))
            labels = "".join(labels[i] for i in rest) + label
    return x, labels


def _repeated(x: Array, labels: str, result_labels: str) -> Array:
    """x in the order of the result, on a diagonal where that repeats a label."""
    for label in dict.fromkeys(result_labels):
        for _ in range(result_labels.count(label) - 1):
            x = _ordered(x, labels, labels.replace(label, "") + label)
            x, labels = lower_matrix_diag(x), labels.replace(label, "") + label
            copy = next(c for c in string.ascii_letters if c not in labels + result_labels)
            labels, result_labels = labels + copy, result_labels.replace(label, copy, 1)
    return _ordered(x, labels, result_labels)


def _summed(x: Array, own: str, needed: str) -> tuple[Array, str]:
    """An operand without the axes that nothing else has."""
    alone = [c for c in own if c not in needed]
    if not alone:
        return x, own
    return ops.sum_(x, [own.index(c) for c in alone], keep_dims=False), "".join(c for c in own if c not in alone)


def _product(x: Array, x_labels: str, y: Array, y_labels: str, needed: str) -> tuple[Array, str]:
    shared = [c for c in x_labels if c in y_labels]
    batch = "".join(c for c in shared if c in needed)
    inner = "".join(c for c in shared if c not in needed)
    if not inner:
        order = "".join(dict.fromkeys(c for c in needed if c in x_labels + y_labels))
        return ops.mul(_aligned(x, x_labels, order), _aligned(y, y_labels, order)), order
    rows = "".join(c for c in x_labels if c not in shared)
    columns = "".join(c for c in y_labels if c not in shared)
    # A constant matrix takes any number of row axes; other operands have one axis each for rows and columns.
    keep_rows = rows and not batch and is_constant(y) and not is_constant(x)
    left, flip_left = _grouped(x, x_labels, batch, tuple(rows) if keep_rows else (rows,), inner)
    right, flip_right = _grouped(y, y_labels, batch, (inner,), columns)
    result = matrix_product(left, right, flip_left, flip_right)
    shape = (
        *result.shape[: len(batch)],
        *(x.shape[x_labels.index(c)] for c in rows),
        *(y.shape[y_labels.index(c)] for c in columns),
    )
    return shaped(result, shape, x, y), batch + rows + columns


def _aligned(x: Array, labels: str, order: str) -> Array:
    """x with an axis of size 1 for each label of the order that it lacks; leading ones are left to broadcasting."""
    x = _ordered(x, labels, "".join(c for c in order if c in labels))
    first = min((order.index(c) for c in labels), default=len(order))
    for i, label in enumerate(order[first:]):
        if label not in labels:
            x = ops.expand_dims(x, np.int32(i))
    return x


def _grouped(x: Array, labels: str, batch: str, first: Sequence[str], second: str) -> tuple[Array, bool]:
    """x as matrices: batch axes, then those of each group merged into one. Whether `second` comes before `first`.

    That way round where it saves a transpose of what is computed.
    """
    flip = not is_constant(x) and len(first) == 1 and labels == batch + second + first[0] != batch + first[0] + second
    groups = (*batch, second, *first) if flip else (*batch, *first, second)
    ordered = _ordered(x, labels, "".join(groups))
    return shaped(ordered, tuple(product(tuple(x.shape[labels.index(c)] for c in g)) for g in groups), x), flip


def _ordered(x: Array, labels: str, result_labels: str) -> Array:
    return x if labels == result_labels else ops.transpose(x, [labels.index(c) for c in result_labels])
