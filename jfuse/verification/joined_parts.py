"""The parts of outputs that are joined of several values, as boxes and scores of a detector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

from jfuse.ir.dims import Dim
from jfuse.ir.graph import Atom, Const, Eqn, Program, Var
from jfuse.ir.walk import producers
from jfuse.kernels import ops

_MOST = 8  # joins of more are steps of a sequence


@dataclass(frozen=True)
class JoinedPart:
    """A range of places along one axis of an output."""

    axis: int
    start: int
    end: int

    @property
    def index(self) -> tuple[slice, ...]:
        """Slices that select this part of an array."""
        return (*[slice(None)] * self.axis, slice(self.start, self.end))

    def __str__(self) -> str:
        return f"[{':, ' * self.axis}{self.start}:{self.end}]"


def joined_parts(program: Program) -> Mapping[tuple[str, str], Sequence[JoinedPart]]:
    """The parts of each output that has some, by the key of its signature and its name."""
    parts_by_output = {}
    for signature in program.signatures:
        made_by = producers(signature.graph)
        for name, atom in zip(signature.output_names, signature.graph.outputs, strict=False):
            if parts := _parts(atom, made_by):
                parts_by_output[signature.key, name] = parts
    return parts_by_output


def _parts(atom: Atom, made_by: Mapping[Var, Eqn]) -> Sequence[JoinedPart]:
    """The parts of a value, which it has been moved from, or computed from by constants."""
    eqn = made_by.get(atom) if isinstance(atom, Var) else None
    if eqn is None:
        return ()
    x = eqn.inputs[0] if eqn.inputs else None
    if eqn.op in (ops.concatenation, ops.pack):
        return _of_join(eqn, made_by)
    if eqn.op.elementwise:
        read = [a for a in eqn.inputs if isinstance(a, Var)]
        return _parts(read[0], made_by) if len(read) == 1 and read[0].type.shape == atom.type.shape else ()
    if x is None or not (eqn.op in (ops.quantize, ops.dequantize) or eqn.op.moves in ("renames", "permutes")):
        return ()
    parts = _parts(x, made_by)
    axis = _axis_behind(eqn, x, parts[0].axis) if parts else None
    return () if axis is None else [JoinedPart(axis, part.start, part.end) for part in parts]


def _of_join(eqn: Eqn, made_by: Mapping[Var, Eqn]) -> Sequence[JoinedPart]:
    axis = int(eqn.params["axis"]) % eqn.outputs[0].type.rank
    sizes = [1] * len(eqn.inputs) if eqn.op is ops.pack else [*_sizes(eqn, axis, made_by)]
    if not 1 < len(sizes) <= _MOST or not all(isinstance(size, int) for size in sizes):
        return ()
    return [JoinedPart(axis, *ends) for ends in pairwise(accumulate(sizes, initial=0))]


def _sizes(eqn: Eqn, axis: int, made_by: Mapping[Var, Eqn]) -> Iterator[Dim]:
    """The sizes of the parts of a join, and of joins before it along the same axis."""
    for atom in eqn.inputs:
        assert atom is not None, "an operand"
        inner = _parts(atom, made_by)
        if inner and inner[0].axis == axis:
            yield from (part.end - part.start for part in inner)
        else:
            yield atom.type.shape[axis]


def _axis_behind(eqn: Eqn, x: Atom, axis: int) -> int | None:
    """Where an axis of an operand is in the result; None where it is none any more."""
    before, after = x.type.shape, eqn.outputs[0].type.shape
    if eqn.op.moves == "permutes":
        order = eqn.inputs[1] if len(eqn.inputs) > 1 else None
        return [int(i) for i in order.array].index(axis) if isinstance(order, Const) else None
    candidates = [i for i, size in enumerate(after) if size == before[axis]]
    return next((i for i in candidates if _are_as_many(before[:axis], after[:i])), None)


def _are_as_many(some: Sequence[Dim], others: Sequence[Dim]) -> bool:
    """Whether axes hold as many elements, as far as equal open sizes show."""
    closed_sizes = [prod(d for d in dims if isinstance(d, int)) for dims in (some, others)]
    is_open = [sorted(str(d) for d in dims if not isinstance(d, int)) for dims in (some, others)]
    return closed_sizes[0] == closed_sizes[1] and is_open[0] == is_open[1]
