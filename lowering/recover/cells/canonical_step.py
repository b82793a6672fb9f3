"""Loops in one form: states and step inputs are matrices, step inputs one beside the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import Dim, Shape, is_known, product, same
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import scan_parts
from jfuse.kernels.core.op import Array
from jfuse.lowering.recover.algebra.reshaped import reshaped

Finish = Callable[[Sequence[Any]], list[Any]]
"""From the results of a loop in normal form those of the loop that it was, recorded in the active trace."""


def normal_form(eqn: Eqn, apart: Collection[int] = ()) -> tuple[Eqn, Finish]:
    """A scan whose float states and step inputs are f[batch, columns], and what makes its results those of `eqn`.

    Float step inputs stand side by side in one, but for those whose numbers are in `apart`; these come last. The
    operands are recorded in the active trace, the scan is not. It is `eqn` where there is nothing to change.
    """
    (body,) = eqn.bodies
    consts, initial, sequences = scan_parts(eqn.inputs, eqn.params)
    carries = [_rows(a.type) or a.type for a in initial]
    batch = _batch(carries)
    inputs = _Inputs.of([TensorType(s.type.shape[1:], s.type.dtype) for s in sequences], batch, apart)
    collected = [_rows(a.type) or a.type for a in body.outputs[len(initial) :]]
    if all(t == a.type for t, a in zip(carries, initial, strict=True)) and inputs.is_plain:
        return eqn, list

    def step(*args: Array) -> list[Array]:
        remaining = list(args)
        own = [remaining.pop(0) for _ in consts]
        states = [reshaped(remaining.pop(0), a.type.shape) for a in initial]
        results = evaluate(body, [*own, *states, *inputs.apart(remaining)])
        return [reshaped(r, t.shape) for r, t in zip(results, [*carries, *collected], strict=True)]

    try:
        states = [reshaped(a, t.shape) for a, t in zip(initial, carries, strict=True)]
        operands = [as_atom(v) for v in (*consts, *states, *inputs.joined(sequences))]
        types = [a.type for a in operands[: len(consts) + len(states)]]
        stepped = trace_graph(step, [*types, *inputs.types], "step")
    except JfuseError:  # sizes that no shape gives, or a body that needs them equal
        return eqn, list
    return _scan(eqn, operands, stepped), lambda results: _finished(eqn, results)


def _scan(eqn: Eqn, operands: Sequence[Atom], body: Graph) -> Eqn:
    outputs = tuple(Var(t) for t in eqn.op.infer(operands, eqn.params, (body,)))
    return replace(eqn, inputs=tuple(operands), outputs=outputs, bodies=(body,))


def _finished(eqn: Eqn, results: Sequence[Array]) -> list[Array]:
    return [reshaped(r, out.type.shape) for r, out in zip(results, eqn.outputs, strict=True)]


def _rows(type_: TensorType) -> TensorType | None:
    """A float type as a matrix: the last dimension in columns, the others in rows."""
    if not type_.dtype.is_float or type_.rank < 1 or not is_known(type_.shape[-1]):
        return None
    if type_.rank == 2:
        return type_
    rows = _but_ones(type_.shape[:-1])
    if len(rows) > 1 and (type_.rank > 3 or not all(is_known(d) for d in rows)):
        return None  # images, whose rows are not those of a batch; or a size that is a product of open ones
    return replace(type_, shape=(product(rows), type_.shape[-1]))


def _but_ones(shape: Shape) -> tuple[Dim, ...]:
    return tuple(d for d in shape if same(d, 1) is not True)


def _batch(states: Sequence[TensorType]) -> Dim | None:
    """The rows of the first state that is a matrix."""
    return next((t.shape[0] for t in states if t.rank == 2 and t.dtype.is_float), None)


@dataclass(frozen=True)
class _Inputs:
    """The step inputs: `source` as they are; those at `places` are joined into one matrix, with `rows` side by side."""

    source: tuple[TensorType, ...]
    places: tuple[int, ...]
    rows: tuple[TensorType, ...]

    @classmethod
    def of(cls, source: Sequence[TensorType], batch: Dim | None, apart: Collection[int]) -> _Inputs:
        """Select the inputs that can be joined: the first float input, and inputs of the same dtype."""
        joinable = {i: t for i, t in enumerate(source) if batch is not None and i not in apart}
        rows = {i: r for i, t in joinable.items() if batch is not None and (r := _input_rows(t, batch)) is not None}
        dtypes = [r.dtype for r in rows.values()]
        places = tuple(i for i, r in rows.items() if r.dtype is dtypes[0])
        return cls(tuple(source), places, tuple(rows[i] for i in places))

    @property
    def is_plain(self) -> bool:
        return not self.places or (len(self.places) == 1 and self.rows[0] == self.source[self.places[0]])

    @property
    def types(self) -> list[TensorType]:
        """The types of a step, the joined one first."""
        others = [t for i, t in enumerate(self.source) if i not in self.places]
        if not self.places:
            return others
        columns = sum(int(r.shape[1]) for r in self.rows)
        return [replace(self.rows[0], shape=(self.rows[0].shape[0], columns)), *others]

    def joined(self, sequences: Sequence[Array]) -> list[Array]:
        """The sequences of a loop, those that are joined in one."""
        others = [s for i, s in enumerate(sequences) if i not in self.places]
        taken = [sequences[i] for i in self.places]
        shaped = [reshaped(s, (s.type.shape[0], *r.shape)) for s, r in zip(taken, self.rows, strict=True)]
        if not shaped:
            return others
        return [shaped[0] if len(shaped) == 1 else ops.concatenation(*shaped, axis=2), *others]

    def apart(self, arrays: Sequence[Array]) -> list[Array]:
        """The inputs of a step from those of the normal form."""
        if not self.places:
            return list(arrays)
        sizes = [int(r.shape[1]) for r in self.rows]
        joined, *others = arrays
        parts = [joined] if len(sizes) == 1 else ops.split_v(joined, np.array(sizes, np.int32), np.int32(1))
        own = {i: reshaped(p, self.source[i].shape) for i, p in zip(self.places, parts, strict=True)}
        return [own[i] if i in own else others.pop(0) for i in range(len(self.source))]


def _input_rows(type_: TensorType, batch: Dim) -> TensorType | None:
    """A step input as a matrix with the rows of the states: all that comes after the batch in columns."""
    if not type_.dtype.is_float:
        return None
    columns = list(type_.shape)
    rows: Dim = 1
    while columns and same(rows, batch) is not True:
        rows = rows * columns.pop(0)
    if same(rows, batch) is not True:
        return None
    known = all(is_known(d) for d in columns)
    return replace(type_, shape=(batch, int(np.prod([int(d) for d in columns])))) if known else None
