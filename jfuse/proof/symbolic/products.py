"""Contractions: DOT_GENERAL with a constant operand, and with two that are not where it is small."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from jfuse.proof.symbolic.atoms import Atoms
from jfuse.proof.symbolic.forms import ULP, Block, Form, Picks, Stopped, limit
from jfuse.proof.symbolic.functions import product
from jfuse.proof.symbolic.moves import aligned, broadcast, grid_shape, summed, transposed, with_closed

_MOST = 2**16  # products of atoms that are written out


def dot_general(
    atoms: Atoms,
    left: Form,
    right: Form,
    contracted: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]],
) -> Form:
    """The contraction of two forms: axes are batch, free ones of the left, free ones of the right."""
    left, right = _in_order(left, batch[0], contracted[0]), _in_order(right, batch[1], contracted[1])
    shared, summed_ = len(batch[0]), len(contracted[0])
    if left.is_constant or right.is_constant:
        return _with_constant(left, right, shared, summed_)
    return _written_out(atoms, left, right, shared, summed_)


def _in_order(form: Form, batch: Sequence[int], contracted: Sequence[int]) -> Form:
    """The form with its batch axes first and the contracted ones, closed, last."""
    free = [a for a in range(len(form.axes)) if a not in batch and a not in contracted]
    form = with_closed(form, contracted)
    return transposed(form, [*batch, *free, *contracted])


def _written_out(atoms: Atoms, left: Form, right: Form, shared: int, summed_: int) -> Form:
    """The sum of products of all pairs."""
    mine, other = len(left.axes) - shared - summed_, len(right.axes) - shared - summed_
    first, second = left.shape, right.shape
    shape = (*first[: shared + mine], *second[shared : shared + other], *first[shared + mine :])
    batch, sums = list(range(shared)), list(range(shared + mine + other, shared + mine + other + summed_))
    a = broadcast(left, shape, [*batch, *range(shared, shared + mine), *sums])
    b = broadcast(right, shape, [*batch, *range(shared + mine, shared + mine + other), *sums])
    a, b = aligned(a, b)
    if a.rows > _MOST:
        raise Stopped("a product of two computed matrices")
    return summed(product(atoms, a, b), sums)


def _with_constant(left: Form, right: Form, shared: int, summed_: int) -> Form:
    has_open = [any(f.is_open(a) for a in range(shared, len(f.axes))) for f in (left, right)]
    is_left = left.is_constant and not (right.is_constant and has_open[0])
    constant, form = (left, right) if is_left else (right, left)
    for axis in range(shared):
        constant, form = _batch_alike(constant, form, axis)
    constant = with_closed(constant, range(len(constant.axes)))
    sizes = grid_shape(constant)
    terms = prod(sizes[len(sizes) - summed_ :])
    columns = sizes[shared : len(sizes) - summed_]
    matrix = constant.constant.reshape(prod(sizes[:shared]), prod(columns), terms)
    rows = form.rows // (matrix.shape[0] * terms) if terms else 0
    if not rows or not matrix.size:
        raise Stopped("an empty product")
    blocks = {i: _contracted(b, matrix, rows) for i, b in form.blocks.items()}
    value = np.matmul(form.constant.reshape(-1, rows, terms), matrix.transpose(0, 2, 1)).reshape(-1)
    weight = float(np.abs(matrix).sum(axis=2).max(initial=0.0))
    error = weight * form.error + terms * constant.error * (form.magnitude + form.error)
    error += terms * ULP * weight * form.magnitude
    free = form.axes[shared : len(form.axes) - summed_]
    new = tuple(((size, False),) for size in columns)
    # The rows are in the order batch, free, new.
    result = Form((*form.axes[:shared], *free, *new), blocks, value, error).without_empty()
    if not is_left:
        return result
    first = shared + len(free)
    order = [*range(shared), *range(first, first + len(new)), *range(shared, first)]
    return transposed(result, order)


def _batch_alike(constant: Form, form: Form, axis: int) -> tuple[Form, Form]:
    """A constant whose rows along a batch axis are those of the form: one, where the form has an open axis."""
    if not form.is_open(axis):
        return with_closed(constant, [axis]), form
    if constant.is_open(axis):
        closed_axis: Form = Form(
            (*constant.axes[:axis], (), *constant.axes[axis + 1 :]), {}, constant.constant, constant.error
        )
        return closed_axis, form
    return constant, with_closed(form, [axis])


def _contracted(block: Block, matrix: np.ndarray, rows: int) -> np.ndarray:
    """The block of a product.   block: rows in the order batch, rows, terms; matrix: f64[batch, columns, terms]"""
    batch, columns, terms = matrix.shape
    if isinstance(block, Picks):
        size = int(block.atoms.max(initial=-1)) + 1
        limit(batch * rows * columns * max(size, 1))
        chosen = block.atoms[block.atoms >= 0]
        if rows == batch == 1 and np.array_equal(block.atoms, np.arange(terms)) and (block.scale == 1.0).all():
            return matrix[0]
        if rows == batch == 1 and len(np.unique(chosen)) == len(chosen):
            result = np.zeros((columns, size))
            (here,) = np.nonzero(block.atoms >= 0)
            result[:, chosen] = matrix[0][:, here] * block.scale[here]
            return result
        block = block.dense(size)
    width = block.shape[1]
    limit(batch * rows * columns * width)
    entries = block.reshape(batch, rows, terms, width)
    return np.einsum("bct,brtw->brcw", matrix, entries, optimize=True).reshape(-1, width)
