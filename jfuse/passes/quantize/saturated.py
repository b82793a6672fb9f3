"""Values that only kernels read whose results do not change any more far from 0: their ranges end there.

A LOGISTIC of 16 bits answers 1 from 10.7 on: integers that reach to 1,000, as gates of a recurrence do whose inputs
have outliers, would leave a hundredth of the steps for the rest. What is beyond the end saturates, which is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.passes.quantize.forms import facts, operands_of
from jfuse.quantization.recipe import QuantizeRule

_EVERYWHERE = float("inf")
_MOST = 1000.0
"""How many times narrower a range may get: the sums of a product in 16 bits become steps of the result by a multiplier
of less than 2^7, which is 1/127 for the widest range (MultiplyByQuantizedMultiplier of int64_t)."""


def narrowed(low: float, high: float, end: float) -> tuple[float, float]:
    """A range that ends so far from 0, or a little farther."""
    end = max(end, max(-low, high) / _MOST)
    return max(low, -end), min(high, end)


def saturated_ends(
    graph: Graph, integers: Mapping[Eqn, QuantizeRule], range_of: Callable[[Atom], tuple[float, float]]
) -> Mapping[Var, float]:
    """How far from 0 the results of kernels of integers matter to those that read them, where that has an end.

    integers: the equations that compute in integers. range_of: what was seen of an operand.
    """
    ends: dict[Var, float] = {a: _EVERYWHERE for a in graph.outputs if isinstance(a, Var)}
    found: dict[Var, float] = {}
    for eqn in reversed(graph.eqns):
        results = [ends.get(var, 0.0) for var in eqn.outputs]
        if eqn in integers and max(results) < _EVERYWHERE:
            found.update((var, end) for var, end in zip(eqn.outputs, results, strict=True) if end)
        told = dict(_told(eqn, integers[eqn], max(results), range_of)) if eqn in integers else {}
        for i, atom in enumerate(eqn.inputs):
            if isinstance(atom, Var) and not eqn.op.operand_at(i).shape_only:
                ends[atom] = max(ends.get(atom, 0.0), told.get(i, _EVERYWHERE))
    return found


def _told(
    eqn: Eqn, rule: QuantizeRule, end: float, range_of: Callable[[Atom], tuple[float, float]]
) -> Iterator[tuple[int, float]]:
    """How far operands matter.   end: how far the results do"""
    row, read = facts(eqn).integers, operands_of(eqn).activations
    if row is None:
        return
    if rule.activations in row.saturates:
        yield from ((i, row.saturates[rule.activations]) for i in read)
    elif row.result == "same" and eqn.op.moves is not None:
        yield from ((i, end) for i in read)
    elif eqn.op.elementwise and eqn.op.linear == "joint" and len(read) == 2:
        for i, j in (read, read[::-1]):
            other = eqn.inputs[j]
            assert other is not None, "an operand"
            yield i, end + max(map(abs, range_of(other)))
