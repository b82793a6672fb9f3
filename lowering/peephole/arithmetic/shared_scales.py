"""Scales and shifts that several products read, as queries, keys and values read one norm: each takes them in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import at_source, recording
from jfuse.ir.walk import producers, users
from jfuse.lowering.peephole.arithmetic.affine import Affine, fits_before, keeps_precision
from jfuse.lowering.peephole.arithmetic.weighted import WeightedEqn


@dataclass(frozen=True)
class _ProductView:
    """The view of the graph that a product needs.

    counts: how often constants are read. made_by: the equation of each value. rounds_weights: as in the function below.
    """

    counts: Counter[int]
    made_by: Mapping[Var, Eqn]
    rounds_weights: Callable[[Eqn], bool]

    def producer(self, atom: Atom | None, /) -> Eqn | None:
        """The equation that makes a value; None for constants and inputs of the graph."""
        return self.made_by.get(atom) if isinstance(atom, Var) else None

    def readers(self, atom: Var | Const, /) -> int:
        """The number of equations that read a constant."""
        return self.counts[atom.memory] if isinstance(atom, Const) else 2

    def is_compared(self, atom: Var | Const, /) -> bool:
        """False: a product's operands are compared with nothing."""
        return False


def affine_before_products(graph: Graph, rounds_weights: Callable[[Eqn], bool] = lambda eqn: False) -> Graph:
    """FULLY_CONNECTED(MUL(x, s), w) = FULLY_CONNECTED(x, w * s) for all that read the MUL, where nothing else does.

    rounds_weights: whether the weights of an equation will be in few bits.
    """
    readers = users(graph)
    counts = Counter(a.memory for e in graph.eqns for a in e.inputs if isinstance(a, Const))
    reads = _ProductView(counts, producers(graph), rounds_weights)
    results = {a for a in graph.outputs if isinstance(a, Var)}
    replaced: dict[Var, Eqn] = {}
    for eqn in graph.eqns:
        affine = Affine.of(eqn)
        if affine is None or eqn.outputs[0] in results or len(readers.get(eqn.outputs[0], ())) < 2:
            continue
        behind = readers[eqn.outputs[0]]
        if any(e.outputs[0] in replaced for e in (eqn, *behind)):
            continue  # for the next time: what it was found to be is no longer so
        replaced.update(_taken_in(affine, eqn.outputs[0], behind, reads) or {})
    if not replaced:
        return graph
    return replace(graph, eqns=tuple(replaced.get(e.outputs[0], e) if e.outputs else e for e in graph.eqns))


def _taken_in(affine: Affine, result: Var, readers: Sequence[Eqn], reads: _ProductView) -> dict[Var, Eqn] | None:
    """The products once more, of what the affine function is of, by their result; None where one of them cannot."""
    replaced: dict[Var, Eqn] = {}
    for reader in readers:
        product = WeightedEqn.of(reader)
        others = () if product is None else (a for a in reader.inputs if a is not product.x)
        if product is None or product.x is not result or any(a is result for a in others):
            return None
        if not product.may_scale(reads) or not fits_before(affine, product):
            return None
        if not keeps_precision(affine, product, reads):
            return None
        with recording() as trace, at_source(reader.source):
            made = product.with_input(affine.x, affine.scale, affine.shift)
        if made is None or len(trace.eqns) != 1 or trace.sizes:
            return None
        replaced[reader.outputs[0]] = replace(trace.eqns[0], outputs=reader.outputs)
    return replaced
