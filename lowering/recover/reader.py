"""Reading a loop body backwards, element by element, through whatever only moves elements around."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.errors import JfuseError, NotFused
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.kernels.op import TflOp
from jfuse.lowering.recover.expressions import Apply, Expr, Leaf, Number, Opaque, Product, Sum, Vector
from jfuse.lowering.recover.forms import Dependence, concrete_zeros


class Reader:
    """Expressions of the values of a body. Elements are named by their place in the flattened tensor of `rows` rows.

    Splits, slices, concatenations, reshapes and their like are known by what they do to numbered elements, not by name;
    values that are affine in the body's inputs are leaves.
    """

    def __init__(self, body: Graph, dependence: Dependence, rows: int) -> None:
        self._inputs = frozenset(body.inputs)
        self._dependence = dependence
        self._known: dict[tuple[Var, bytes], Expr] = {}
        self._arrays: dict[Var, np.ndarray] = {v: concrete_zeros(v.type, rows) for v in body.inputs}
        try:
            evaluate(body, [self._arrays[v] for v in body.inputs], self._observe)
        except JfuseError as error:
            raise NotFused("body_not_executable", got=str(error).split("\n")[0]) from error

    def read(self, atom: Atom, index: np.ndarray | None = None) -> Expr:
        """The expression of some elements of a value, of all of them where no index is given."""
        places = np.arange(self._array(atom).size) if index is None else index
        if isinstance(atom, Const) or not self._dependence.of(atom):
            return _constant(self._array(atom).reshape(-1)[places])
        key = (atom, places.tobytes())
        if key not in self._known:
            self._known[key] = self._read(atom, places)
        return self._known[key]

    def _read(self, var: Var, index: np.ndarray) -> Expr:
        eqn = self._dependence.made_by.get(var)
        if eqn is None:
            return Leaf(var, index.tobytes(), len(self._known))
        moved = self._moved(eqn, var, index)
        if moved is not None:
            return self.read(*moved)
        if self._dependence.of(var) <= self._inputs:
            return Leaf(var, index.tobytes(), len(self._known))
        return self._elementwise(eqn, index) or Opaque(eqn.op, var, index.tobytes(), len(self._known))

    def _moved(self, eqn: Eqn, var: Var, index: np.ndarray) -> tuple[Atom, np.ndarray] | None:
        """Where the elements come from unchanged: an operand and places in it."""
        op = eqn.op
        if not isinstance(op, TflOp) or op.elementwise or op.linear != "joint" or not var.type.dtype.is_float:
            return None
        random = np.random.default_rng(0)
        inputs: list[Any] = [None if a is None else self._array(a) for a in eqn.inputs]
        labels = {i: random.random(a.shape) for i, a in enumerate(inputs) if a is not None and a.dtype.kind == "f"}
        results = op.run([labels.get(i, a) for i, a in enumerate(inputs)], eqn.params, ())
        wanted = np.asarray(results[eqn.outputs.index(var)]).reshape(-1)[index]
        for place, label in labels.items():
            flat = label.reshape(-1)
            order = np.argsort(flat)
            found = order[np.clip(np.searchsorted(flat, wanted, sorter=order), 0, flat.size - 1)]
            operand = eqn.inputs[place]
            if operand is not None and np.array_equal(flat[found], wanted):
                return operand, found
        return None

    def _elementwise(self, eqn: Eqn, index: np.ndarray) -> Expr | None:
        op = eqn.op
        if not isinstance(op, TflOp) or not op.elementwise or len(eqn.outputs) != 1:
            return None
        shape = self._array(eqn.outputs[0]).shape
        operands = [self.read(a, _broadcast(self._array(a).shape, shape)[index]) for a in eqn.inputs if a is not None]
        plain = eqn.params.get("fused_activation_function", "NONE") == "NONE" and eqn.outputs[0].type.dtype.is_float
        if plain and op.linear == "joint":
            units = np.eye(len(operands))
            return Sum(tuple((_at(op, eqn, unit), o) for unit, o in zip(units, operands, strict=True)))
        if plain and op.linear == "each" and _at(op, eqn, np.ones(len(operands))) == 1:
            return Product(tuple(operands))
        if plain and op.linear == "first" and len(operands) == 2 and isinstance(operands[1], Number):
            return Sum(((_at(op, eqn, np.array([1.0, operands[1].value])), operands[0]),))
        return Apply(op, tuple(eqn.params.items()), tuple(operands))

    def _array(self, atom: Atom) -> np.ndarray:
        return atom.array if isinstance(atom, Const) else self._arrays[atom]

    def _observe(self, eqn: Eqn, results: tuple[Any, ...]) -> None:
        self._arrays.update((out, np.asarray(r)) for out, r in zip(eqn.outputs, results, strict=True))


def _at(op: TflOp, eqn: Eqn, values: np.ndarray) -> float:
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
