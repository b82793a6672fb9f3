"""What operators ask of open sizes: windows and rows that must be there, operands that must fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from jfuse.ir.dims import Dim, is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph
from jfuse.kernels import ops


@dataclass(frozen=True)
class SizeNeed:
    """Dimensions that must be related at run time: all equal but for those of 1, or none below `least`."""

    dims: tuple[Dim, ...]
    agree: bool = False
    least: int = 1

    def holds(self, sizes: Sequence[int]) -> bool:
        """Whether these sizes of the dimensions are so."""
        return len(set(sizes) - {1}) <= 1 if self.agree else min(sizes) >= self.least


def size_needs(graph: Graph) -> frozenset[SizeNeed]:
    """What the operators of a graph ask of sizes: TensorFlow and LiteRT refuse what does not fit."""
    found = {need for eqn in graph.eqns for need in (*_windows_and_operands(eqn), *_rows(eqn))}
    return frozenset(n for n in found if not n.agree or len(set(map(str, n.dims))) > 1)


def _windows_and_operands(eqn: Eqn) -> Iterator[SizeNeed]:
    shapes = [a.type.shape for a in eqn.inputs if a is not None]
    if "padding" in eqn.params:
        yield from (SizeNeed((d,)) for v in eqn.outputs for d in v.type.shape)
    elif eqn.op.moves == "joins" and "axis" in eqn.params and eqn.outputs[0].type.rank == len(shapes[0]):
        axis = eqn.params["axis"] % len(shapes[0])
        yield from (SizeNeed(dims, True) for i, dims in enumerate(zip(*shapes, strict=True)) if i != axis)
    elif eqn.op.elementwise:
        yield from (SizeNeed(d, True) for d in zip_longest(*(reversed(s) for s in shapes), fillvalue=1))


def _rows(eqn: Eqn) -> Iterator[SizeNeed]:
    """The rows that constants speak of: x[2], the three greatest, the rows 0, 4 and 7."""
    x = eqn.inputs[0] if eqn.inputs else None
    if x is None or isinstance(x, Const):
        return
    if eqn.op is ops.topk_v2:
        yield from _at_least(x.type.shape[-1], _numbers(eqn.inputs[1]))
    elif eqn.op is ops.gather:
        yield from _at_least(x.type.shape[eqn.params["axis"]], [n + 1 for n in _numbers(eqn.inputs[1])])
    elif eqn.op is ops.strided_slice and not eqn.params["ellipsis_mask"] | eqn.params["new_axis_mask"]:
        for axis, place in enumerate(_numbers(eqn.inputs[1])):
            if eqn.params["shrink_axis_mask"] >> axis & 1:
                yield from _at_least(x.type.shape[axis], [-place if place < 0 else place + 1])


def _numbers(atom: Atom | None) -> list[int]:
    """The entries of a constant; none of what is computed."""
    return [int(n) for n in atom.array.ravel()] if isinstance(atom, Const) else []


def _at_least(size: Dim, rows: Sequence[int]) -> Iterator[SizeNeed]:
    if rows and not is_known(size):
        yield SizeNeed((size,), least=max(rows))
