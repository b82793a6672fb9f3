"""Requirements of operators on open sizes: least sizes for windows and rows, equal sizes of operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from jfuse.ir.dims import Dim, is_known
from jfuse.ir.graph import Eqn, Graph
from jfuse.proof.ranges import rows_asked, spread_dims


@dataclass(frozen=True)
class SizeNeed:
    """Dimensions that must be related at run time: all equal, or none below `least`.

    spread: those of 1 are spread over the others.
    """

    dims: tuple[Dim, ...]
    agree: bool = False
    least: int = 1
    spread: bool = True

    def holds(self, sizes: Sequence[int]) -> bool:
        """Whether these sizes of the dimensions are so."""
        return len(set(sizes) - ({1} if self.spread else set())) <= 1 if self.agree else min(sizes) >= self.least

    def smaller(self, sizes: Sequence[int]) -> list[Dim]:
        """The dimensions that are to grow, where these sizes do not hold: of those that agree all but the largest."""
        return [d for d, size in zip(self.dims, sizes, strict=True) if not self.agree or size < max(sizes)]


def size_needs(graph: Graph) -> frozenset[SizeNeed]:
    """Collect the requirements of a graph's operators on sizes; TensorFlow and LiteRT refuse other sizes."""
    needs = {need for eqn in graph.eqns for need in _asked(eqn)}
    return frozenset(n for n in needs if not n.agree or len(set(map(str, n.dims))) > 1)


def _asked(eqn: Eqn) -> Iterator[SizeNeed]:
    shapes = [a.type.shape for a in eqn.inputs if a is not None]
    if "padding" in eqn.params or eqn.op.moves == "takes":
        yield from (SizeNeed((d,)) for v in eqn.outputs for d in v.type.shape)
    elif eqn.op.moves == "joins" and "axis" in eqn.params and eqn.outputs[0].type.rank == len(shapes[0]):
        axis = eqn.params["axis"] % len(shapes[0])
        yield from (SizeNeed(dims, True) for i, dims in enumerate(zip(*shapes, strict=True)) if i != axis)
    elif eqn.op.elementwise:
        yield from (SizeNeed(d, True) for d in zip_longest(*(reversed(s) for s in shapes), fillvalue=1))
    yield from (SizeNeed((d,), least=rows) for d, rows in rows_asked(eqn) if not is_known(d))
    yield from (SizeNeed(dims, True, spread=False) for dims in spread_dims(eqn))
