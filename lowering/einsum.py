"""Einsum of one or two operands: transposes and reshapes around one matrix product."""

from __future__ import annotations

import string
from collections.abc import Sequence

from jfuse.errors import LowerError
from jfuse.kernels import ops
from jfuse.kernels.op import Array
from jfuse.lowering.matmul import matrix_product
from jfuse.lowering.query import is_constant, rank
from jfuse.lowering.rules import lowers
from jfuse.lowering.shapes import shape_tensor


@lowers("Einsum")
def lower_einsum(*operands: Array, equation: str) -> Array:
    """The products of elements that agree in their labels, summed over the labels that the result lacks.

    equation: `abc,cd->abd`; `...` stands for leading axes, which broadcast.
    """
    labels, wanted = parse_equation(equation, [rank(x) for x in operands])
    terms = [_summed(x, own, labels, wanted) for x, own in zip(operands, labels, strict=True)]
    if len(terms) == 1:
        return _ordered(*terms[0], wanted)
    (x, x_labels), (y, y_labels) = terms
    if is_constant(x) and not is_constant(y):
        x, x_labels, y, y_labels = y, y_labels, x, x_labels  # weights stand on the right
    return _ordered(*_product(x, x_labels, y, y_labels, wanted), wanted)


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, one letter for each axis, dots replaced by letters of their own.

    Raises LowerError for more than two operands and for a label that one of them has twice (a diagonal).
    """
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    free = [c for c in string.ascii_letters if c not in equation]
    hidden = [r - len(t.replace("...", "")) if "..." in t else 0 for t, r in zip(terms, ranks, strict=True)]
    dots = "".join(free[: max(hidden)])
    labels = [t.replace("...", dots[len(dots) - n :]) for t, n in zip(terms, hidden, strict=True)]
    if len(labels) > 2 or any(len(set(own)) < len(own) for own in labels):
        raise LowerError(
            f"einsum {equation!r}",
            expected="one or two operands, no label twice in one of them",
            remedy="write it as several einsums, and diagonals with tf.linalg.diag_part",
        )
    return labels, right.replace("...", dots)


def _summed(x: Array, own: str, labels: Sequence[str], wanted: str) -> tuple[Array, str]:
    """An operand without the axes that neither the result nor the other operand has."""
    alone = [c for c in own if c not in wanted and sum(c in other for other in labels) == 1]
    if not alone:
        return x, own
    return ops.sum_(x, [own.index(c) for c in alone], keep_dims=False), "".join(c for c in own if c not in alone)


def _product(x: Array, x_labels: str, y: Array, y_labels: str, wanted: str) -> tuple[Array, str]:
    shared = [c for c in x_labels if c in y_labels]
    batch = "".join(c for c in shared if c in wanted)
    inner = "".join(c for c in shared if c not in wanted)
    rows = "".join(c for c in x_labels if c not in shared)
    columns = "".join(c for c in y_labels if c not in shared)
    # A constant matrix takes any number of row axes; other operands have one axis each for rows and columns.
    keep_rows = rows and not batch and is_constant(y) and not is_constant(x)
    groups = (*batch, *(rows if keep_rows else [rows]), inner)
    left = _grouped(x, x_labels, groups)
    right = _grouped(y, y_labels, (*batch, inner, columns))
    result = matrix_product(left, right, False, False)
    shape = (
        *result.shape[: len(batch)],
        *(x.shape[x_labels.index(c)] for c in rows),
        *(y.shape[y_labels.index(c)] for c in columns),
    )
    kept = (len(rows) == 1 or keep_rows) and len(columns) == 1
    return (result if kept else _reshaped(result, shape, [x, y])), batch + rows + columns


def _grouped(x: Array, labels: str, groups: Sequence[str]) -> Array:
    """x with its axes in the order of the groups, those of each group merged into one."""
    ordered = _ordered(x, labels, "".join(groups))
    if all(len(group) == 1 for group in groups):
        return ordered
    shape = []
    for group in groups:
        size = 1
        for label in group:
            size = size * x.shape[labels.index(label)]
        shape.append(size)
    return _reshaped(ordered, shape, [x])


def _reshaped(x: Array, shape: Sequence[int], sources: Sequence[Array]) -> Array:
    return ops.reshape(x, shape_tensor(shape, [x, *sources]))


def _ordered(x: Array, labels: str, wanted: str) -> Array:
    return x if labels == wanted else ops.transpose(x, [labels.index(c) for c in wanted])
