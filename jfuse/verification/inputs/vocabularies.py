"""Inputs that are looked up in tables: random words and numbers would never be among the keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Signature, Var
from jfuse.kernels import ops
from jfuse.proof.index_ranges import entries_of

_OPERANDS: dict[Op, tuple[int, int]] = {ops.hashtable_find: (2, 0), ops.hashtable_lookup: (0, 1)}
"""Positions of the looked-up operand and of the keys, by op."""


def vocabularies(graph: Graph, known: dict[int, dict[Var, np.ndarray]] | None = None) -> dict[Var, np.ndarray]:
    """For each input that is looked up in tables, in bodies too, the keys of these.

    known: results for bodies that were already visited, by their ids.
    """
    known = {} if known is None else known
    keys_by_input: dict[Var, list[np.ndarray]] = {}

    def add(atom: Atom | None, keys: list[np.ndarray]) -> None:
        if isinstance(atom, Var) and keys:
            keys_by_input.setdefault(atom, []).extend(keys)

    for eqn in reversed(graph.eqns):
        for atom, keys in _lookups(eqn):
            add(atom, [keys])
        for body in eqn.bodies:
            operands = dict(zip(body.inputs, eqn.inputs[-len(body.inputs) :], strict=False))
            if id(body) not in known:
                known[id(body)] = vocabularies(body, known)
            for var, words in known[id(body)].items():
                add(operands.get(var), [words])
        clips = eqn.op in (ops.maximum, ops.minimum)  # entries of a range at least
        for atom in eqn.inputs[:1] if clips else entries_of(eqn):
            add(atom, [keys for out in eqn.outputs for keys in keys_by_input.get(out, [])])
    return {v: np.concatenate(keys_by_input[v]) for v in graph.inputs if v in keys_by_input}


def _lookups(eqn: Eqn) -> Iterator[tuple[Atom | None, np.ndarray]]:
    """Yield the values that an equation looks up, with the keys of its table."""
    positions = _OPERANDS.get(eqn.op)
    if positions is None:
        return
    atom, keys = (eqn.inputs[place] for place in positions)
    if isinstance(keys, Const) and keys.array.size:
        yield atom, keys.array


def with_keys(
    signature: Signature, drawn: Mapping[str, np.ndarray], seed: int, *, every: bool = False
) -> dict[str, np.ndarray]:
    """Replace most drawn words by keys of the table in which they are looked up, all of them with `every`."""
    words = vocabularies(signature.graph)
    generator = np.random.default_rng(seed)
    changed = dict(drawn)
    for name, var in zip(signature.input_names, signature.graph.inputs, strict=False):
        if var in words:
            keys = words[var][generator.integers(0, len(words[var]), drawn[name].shape)].astype(drawn[name].dtype)
            chosen = every or generator.random(drawn[name].shape) < 0.75
            changed[name] = np.where(chosen, keys, drawn[name])
    return changed
