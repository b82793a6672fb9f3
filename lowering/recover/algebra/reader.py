"""Reading a loop body backwards, element by element, through whatever only moves elements around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError, NotFused
from jfuse.ir.dims import is_known, symbols_of
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Var
from jfuse.ir.walk import all_eqns, substitute_graph
from jfuse.kernels import ops
from jfuse.kernels.control import if_, scan, while_
from jfuse.kernels.core.op import builtin_ops
from jfuse.lowering.recover.algebra.expressions import (
    Apply,
    Expr,
    Leaf,
    Norm,
    Number,
    Opaque,
    Product,
    Sum,
    Vector,
    parts,
    scaled_leaf,
)
from jfuse.lowering.recover.algebra.forms import Dependence, concrete_start
from jfuse.lowering.recover.cells.layer_norm import RowNorm, row_norm

_MOST_NODES = 2000  # of an expression


class ExpressionReader:
    """Expressions of the values of a body. Elements are named by their place in the flattened tensor.

    Each symbol of its shape is taken as `size`.
    Splits, slices, concatenations, reshapes and their like are known by what they do to numbered elements, not by name;
    values that are affine in the body's inputs are leaves.
    """

    def __init__(self, body: Graph, dependence: Dependence, size: int) -> None:
        self._body = body
        self._inputs = frozenset(body.inputs)
        self._dependence = dependence
        self._known: dict[tuple[Var, bytes], Expr] = {}
        self._sizes: dict[int, int] = {}
        self._norms: dict[Var, RowNorm | None] = {}
        self._made: dict[Apply, set[Var]] = {}
        # What loops and branches make of the inputs is needed in size alone: they take long, or for ever.
        apart = [eqn for eqn in body.eqns if eqn.bodies and dependence.depends(eqn) and _has_loops(eqn)]
        free = (*body.inputs, *(out for eqn in apart for out in eqn.outputs))
        self._arrays: dict[Var, np.ndarray] = {v: concrete_start(v, size) for v in free}
        straight = replace(body, inputs=free, eqns=tuple(eqn for eqn in body.eqns if eqn not in apart), outputs=())
        try:
            evaluate(straight, [self._arrays[v] for v in free], self._observe)
        # NumPy's two, where a size or a place is that of an input: zeros say nothing of it.
        except (JfuseError, ValueError, IndexError) as error:
            raise NotFused("body_not_executable", got=str(error).split("\n")[0]) from error

    def read(self, atom: Atom, index: np.ndarray | None = None) -> Expr:
        """The expression of some elements of a value, of all of them where no index is given."""
        places = np.arange(self._array(atom).size) if index is None else index
        if isinstance(atom, Const) or not self._dependence.of(atom):
            return _constant(self._array(atom).reshape(-1)[places])
        key = (atom, places.tobytes())
        if key not in self._known:
            expr = self._known[key] = self._read(atom, places)
            self._sizes[id(expr)] = 1 + sum(map(self._size, parts(expr)))
        return self._known[key]

    def _size(self, expr: Expr) -> int:
        """The number of nodes of an expression that was read, shared ones counted each time."""
        return self._sizes.get(id(expr), 1)

    def origin(self, atom: Atom) -> Atom:
        """The first value that is the same as this one, element by element in the same order."""
        whole = np.arange(self._array(atom).size)
        first, places = atom, whole
        while isinstance(atom, Var) and (eqn := self._dependence.made_by.get(atom)) is not None:
            moved = self._moved(eqn, atom, places)
            if moved is None:
                break
            atom, places = moved
            if np.array_equal(places, whole) and self._array(atom).size == whole.size:
                first = atom
        return first

    def size(self, var: Var) -> int:
        """The number of elements of a value."""
        return int(self._arrays[var].size)

    def made_as(self, applied: Apply) -> set[Var]:
        """The values of the body that are this application of an op, or have it among their elements."""
        return self._made.get(applied, set())

    def _read(self, var: Var, index: np.ndarray) -> Expr:
        eqn = self._dependence.made_by.get(var)
        if eqn is None:
            return Leaf(var, index.tobytes(), len(self._known))
        moved = self._moved(eqn, var, index)
        if moved is not None:
            return self.read(*moved)
        if self._dependence.of(var) <= self._inputs:
            return self._scaled(eqn, index) or Leaf(var, index.tobytes(), len(self._known))
        normed = self._normed(var, index)
        if normed is not None:
            return normed
        return self._elementwise(eqn, index) or Opaque(eqn.op, var, index.tobytes(), len(self._known))

    def _moved(self, eqn: Eqn, var: Var, index: np.ndarray) -> tuple[Atom, np.ndarray] | None:
        """Where the elements come from unchanged: an operand and places in it."""
        op = eqn.op
        if op.elementwise or op.linear != "joint" or not var.type.dtype.is_float:
            return None
        random = np.random.default_rng(0)
        inputs: list[Any] = [None if a is None else self._array(a) for a in eqn.inputs]
        labels = {i: random.random(a.shape) for i, a in enumerate(inputs) if a is not None and a.dtype.kind == "f"}
        results = op.run([labels.get(i, a) for i, a in enumerate(inputs)], eqn.params, ())
        wanted = np.asarray(results[eqn.outputs.index(var)]).reshape(-1)[index]
        for place, label in labels.items():
            flat = label.reshape(-1)
            if not flat.size:
                continue  # b = concat([v[:, 1:], x]) of a buffer that holds one step reads no element of v
            order = np.argsort(flat)
            nearest = order[np.clip(np.searchsorted(flat, wanted, sorter=order), 0, flat.size - 1)]
            operand = eqn.inputs[place]
            if operand is not None and np.array_equal(flat[nearest], wanted):
                return operand, nearest
        return None

    def _scaled(self, eqn: Eqn, index: np.ndarray) -> Expr | None:
        """Simple multiples of an affine value, as spellings of activations have them: 1 / (1 + exp(-z))."""
        if not eqn.op.elementwise:
            return None
        if sum(bool(self._dependence.of(a)) for a in eqn.inputs) != 1:
            return None
        expr = self._elementwise(eqn, index)
        scale, leaf = (0.0, None) if expr is None else scaled_leaf(expr)
        return Sum(((scale, leaf),)) if leaf is not None and abs(scale) in (0.5, 1.0, 2.0) else None

    def _normed(self, var: Var, index: np.ndarray) -> Norm | None:
        """The elements of a value that is a row of another one with mean 0 and variance 1, scaled and shifted."""
        if var not in self._norms:
            self._norms[var] = row_norm(self._body, self._dependence, var)
        norm = self._norms[var]
        if norm is None:
            return None
        rows, columns = np.divmod(index, norm.scale.size)
        leaf = self.read(norm.of, index)
        whole = columns.size and np.array_equal(np.unique(columns), norm.block(columns[0]))
        if not whole or not isinstance(leaf, Leaf):
            return None
        per_row = columns[: columns.size // len(np.unique(rows))]
        if not np.array_equal(columns, np.tile(per_row, columns.size // per_row.size)):
            return None
        scale, shift = norm.scale[per_row], norm.shift[per_row]
        return Norm(leaf, scale.tobytes(), shift.tobytes(), norm.epsilon, var)

    def _elementwise(self, eqn: Eqn, index: np.ndarray) -> Expr | None:
        op = eqn.op
        if not op.elementwise or len(eqn.outputs) != 1 or _computes_integers(eqn):
            return None
        shape = self._array(eqn.outputs[0]).shape
        operands = [self.read(a, _broadcast(self._array(a).shape, shape)[index]) for a in eqn.inputs if a is not None]
        if sum(map(self._size, operands)) > _MOST_NODES:
            return None  # no known cell is as long; what is read twice in a row doubles the expression each time
        activation = eqn.params.get("fused_activation_function", "NONE")
        if activation == "NONE":
            return self._applied(eqn, operands)
        plain = replace(eqn, params={**eqn.params, "fused_activation_function": "NONE"})
        return self._noted(Apply(builtin_ops()[activation], (), (self._applied(plain, operands),)), eqn)

    def _applied(self, eqn: Eqn, operands: Sequence[Expr]) -> Expr:
        """An elementwise op without fused activation on operands."""
        op = eqn.op
        if eqn.outputs[0].type.dtype.is_float:
            if op.linear == "joint":
                units = np.eye(len(operands))
                return Sum(tuple((_at(op, eqn, unit), o) for unit, o in zip(units, operands, strict=True)))
            if op.linear == "each" and _at(op, eqn, np.ones(len(operands))) == 1:
                return Product(tuple(operands))
            if op.linear == "first" and len(operands) == 2 and isinstance(operands[1], Number):
                return Sum(((_at(op, eqn, np.array([1.0, operands[1].value])), operands[0]),))
            if op is ops.square:
                return Product((operands[0], operands[0]))
        return self._noted(Apply(op, tuple(eqn.params.items()), tuple(operands)), eqn)

    def _noted(self, applied: Apply, eqn: Eqn) -> Apply:
        self._made.setdefault(applied, set()).add(eqn.outputs[0])
        return applied

    def _array(self, atom: Atom) -> np.ndarray:
        return atom.array if isinstance(atom, Const) else self._arrays[atom]

    def _observe(self, eqn: Eqn, results: tuple[Any, ...]) -> None:
        self._arrays.update((out, np.asarray(r)) for out, r in zip(eqn.outputs, results, strict=True))


def _computes_integers(eqn: Eqn) -> bool:
    """Whether an equation gives integers, which wrap and cut, or makes floats of some: no analytic function does."""
    (out,) = eqn.outputs
    source = eqn.inputs[0] if eqn.op is ops.cast else None
    return out.type.dtype.is_integer or (source is not None and source.type.dtype.is_integer)


def _has_loops(eqn: Eqn) -> bool:
    """Whether an equation is a loop or a branch whose results have known sizes, or holds one."""
    shapes = (out.type.shape for out in eqn.outputs)
    return all(is_known(d) or symbols_of(d) == {str(d)} for shape in shapes for d in shape) and any(
        inner.op in (scan, while_, if_) for inner in (eqn, *(e for body in eqn.bodies for e in all_eqns(body)))
    )


def _at(op: Op, eqn: Eqn, values: np.ndarray) -> float:
    """The op on numbers; between floats of any width, so the width that the equation names does not matter."""
    (result,) = op.run([np.asarray(v) for v in values], eqn.params, ())
    return float(result)


def _broadcast(shape: tuple[int, ...], target: tuple[int, ...]) -> np.ndarray:
    """For each element of `target` the place of the element of `shape` that broadcasting puts there."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    return np.broadcast_to(places, target).reshape(-1)


def _constant(values: np.ndarray) -> Expr:
    uniform = values.size > 0 and (values == values[0]).all()
    return Number(float(values[0])) if uniform else Vector(values.astype(np.float64).tobytes())


def straightened(body: Graph, size: int) -> Graph:
    """The body with every value that is another one, element by element and of one type, turned to that one."""
    reader = ExpressionReader(body, Dependence(body), size)
    same: dict[Var, Atom] = {}
    for eqn in body.eqns:
        for out in eqn.outputs:
            first = reader.origin(out)
            if first is not out and first.type == out.type:
                same[out] = first
    return substitute_graph(body, same)
