"""The proofs of this process: a pair that was proven is not proven again, as where several forms are tried."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from jfuse.base.memo import Memo
from jfuse.ir.graph import Const, Graph
from jfuse.ir.text import format_graph
from jfuse.ir.walk import all_eqns
from jfuse.proof.prove import KnownOperands, Proof, prove

_PROOFS: Memo[Proof] = Memo(256)


def prove_once(
    body: Graph, replacement: Graph, known: KnownOperands, claims: Iterable[str] = (), *, tolerance: float
) -> Proof:
    """As `prove` for all inputs; the earlier proof where the same graphs, constants included, were proven before."""
    claims = tuple(claims)
    key = (_key(body), _key(replacement), _key_of_known(known), claims, tolerance)
    return _PROOFS.get(key, lambda: prove(body, replacement, known, claims, tolerance=tolerance, for_all=True))


def _key(graph: Graph) -> Hashable:
    """Identify what a graph computes: its text, in which large constants are digests, and the functions of its ops."""
    functions = frozenset(vars(e.op).get("body") for e in all_eqns(graph) if e.op.is_kernel)
    return format_graph(graph, sources=False), functions


def _key_of_known(known: KnownOperands) -> Hashable:
    constants = tuple(None if a is None else _digest(a) for a in known.constants)
    held = tuple((place, _digest(a)) for place, a in sorted(known.held.items()))
    return constants, held, tuple(sorted(known.padded.items(), key=lambda item: item[0]))


def _digest(array: np.ndarray) -> str:
    return Const(np.asarray(array)).digest
