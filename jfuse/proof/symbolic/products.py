"""Contractions: DOT_GENERAL with a constant operand, and with two that are not where it is small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from jfuse.proof.symbolic.atoms import Atoms
from jfuse.proof.symbolic.blocks import Block, MatrixRows, Picks, Stopped, limit
from jfuse.proof.symbolic.forms import ULP, Form
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
    sides = [_Side(left, batch[0], contracted[0]), _Side(right, batch[1], contracted[1])]
    if not (left.is_constant or right.is_constant):
        first, second = (s.in_order() for s in sides)
        return _written_out(atoms, first, second, len(batch[0]), len(contracted[0]))
    has_open = any(left.is_open(a) for a in sides[0].free)
    if not left.is_constant or (right.is_constant and has_open):
        return _with_constant(sides[1], sides[0])
    result = _with_constant(sides[0], sides[1])
    shared, columns, rows = len(batch[0]), len(sides[0].free), len(sides[1].free)
    start = shared + rows
    return transposed(result, [*range(shared), *range(start, start + columns), *range(shared, start)])


@dataclass(frozen=True)
class _Side:
    """An operand of a contraction, and what its axes are."""

    form: Form
    batch: Sequence[int]
    contracted: Sequence[int]

    @property
    def free(self) -> list[int]:
        """The axes that are neither batch nor contracted."""
        return [a for a in range(len(self.form.axes)) if a not in self.batch and a not in self.contracted]

    def in_order(self) -> Form:
        """The form with its batch axes first and the contracted ones, closed, last."""
        form = with_closed(self.form, self.contracted)
        return transposed(form, [*self.batch, *self.free, *self.contracted])


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


def _with_constant(fixed: _Side, other: _Side) -> Form:
    """The contraction with a constant: axes are batch, free ones of the other operand, free ones of the constant."""
    form, shared, free = other.in_order(), len(other.batch), len(other.free)
    matrix, error, columns, form = _matrix(fixed, form, shared)
    terms = matrix.shape[2]
    rows = form.rows // (matrix.shape[0] * terms) if terms else 0
    if not rows or not matrix.size:
        raise Stopped("an empty product")
    blocks = {i: _contracted(b, matrix, rows) for i, b in form.blocks.items()}
    value = np.zeros(matrix.shape[0] * rows * matrix.shape[1])
    if form.constant.any():
        value = np.matmul(form.constant.reshape(-1, rows, terms), matrix.transpose(0, 2, 1)).reshape(-1)
    axes = (*form.axes[: shared + free], *(((size, False),) for size in columns))
    weight = fixed.form.magnitude
    bound = terms * (weight * form.error + error * (form.magnitude + form.error))
    sums = [form.constant, *form.blocks.values()]
    rounding = max(ULP * weight * _rounded(entries, rows * len(matrix)) for entries in sums)
    return Form(axes, blocks, value, bound + rounding).without_empty()


def _rounded(entries: Block | np.ndarray, rows: int) -> float:
    """The largest factor of a sum of products, times the square of their number; 0 where nothing is rounded.

    rows: the number of parts of the entries; each part has its own sums.
    """
    if isinstance(entries, MatrixRows):
        return (len(entries.sizes) // rows) ** 2 * float(entries.sizes.max(initial=0.0))
    if isinstance(entries, Picks):  # one sum for each atom
        (here,) = np.nonzero(entries.atoms >= 0)
        part, factors = here // (len(entries.atoms) // rows), entries.scale[here]
        count = int(np.bincount(part * entries.width + entries.atoms[here]).max(initial=0))
    else:
        factors = entries
        count = int(np.count_nonzero(entries.reshape(rows, -1), axis=1).max(initial=0))
    is_exact = count <= 1 and bool((np.abs(np.frexp(factors)[0]) % 0.5 == 0).all())  # powers of 2, and 0
    return 0.0 if is_exact else count**2 * float(np.abs(factors).max(initial=0.0))


def _matrix(fixed: _Side, form: Form, shared: int) -> tuple[np.ndarray, float, Sequence[int], Form]:
    """The constant as f64[batch, columns, terms], its error, its free sizes, and the form with the same batch axes."""
    constant = fixed.form
    if shared:
        constant = fixed.in_order()
        for axis in range(shared):
            constant, form = _batch_alike(constant, form, axis)
    constant = with_closed(constant, range(len(constant.axes)))
    sizes = grid_shape(constant)
    array = constant.array.reshape(sizes)
    if not shared:  # a view: transposed copies of weights are what takes the time
        order = [*fixed.free, *fixed.contracted]
        array, sizes = array.transpose(order), [sizes[a] for a in order]
    last = len(sizes) - len(fixed.contracted)
    matrix = array.reshape(prod(sizes[:shared]), prod(sizes[shared:last]), prod(sizes[last:]))
    return matrix, constant.error, sizes[shared:last], form


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


def _contracted(block: Block, matrix: np.ndarray, rows: int) -> Block:
    """The block of a product.   block: rows in the order batch, rows, terms; matrix: f64[batch, columns, terms]"""
    batch, columns, terms = matrix.shape
    if isinstance(block, Picks):
        size = int(block.atoms.max(initial=-1)) + 1
        limit(batch * rows * columns * max(size, 1))
        chosen = block.atoms[block.atoms >= 0]
        (here,) = np.nonzero(block.atoms >= 0)
        if rows == batch == 1 and np.array_equal(chosen, np.arange(size)) and (block.scale[here] == 1.0).all():
            columns_of_it = matrix[0][:, here[0] : here[-1] + 1]  # a view, where they stand side by side
            return MatrixRows.of(columns_of_it if len(here) == columns_of_it.shape[1] else matrix[0][:, here])
        if rows == batch == 1 and len(np.unique(chosen)) == len(chosen):
            result = np.zeros((columns, size))
            result[:, chosen] = matrix[0][:, here] * block.scale[here]
            return MatrixRows.of(result)
    width = block.width
    limit(batch * rows * columns * width)
    entries = block.dense(width).reshape(batch, rows, terms, width)
    return MatrixRows.of(np.einsum("bct,brtw->brcw", matrix, entries, optimize=True).reshape(-1, width))
