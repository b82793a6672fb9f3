"""Eigenvectors and singular vectors: right with either sign, and in any basis where their values are equal.

The signs of left and right singular vectors go together: U S V' is the matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.frontends.jaxprs.eigen_spellings import OF_ANY_SIGN
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Eqn, Graph, Signature, Var
from jfuse.ir.walk import producers
from jfuse.verification.subject import Arrays

Nodes = Mapping[str, tuple[np.ndarray, ...]]


@dataclass(frozen=True)
class SourceVectors:
    """Results of a node of the source that may be the vectors, as columns, and the eigenvalues or singular values."""

    candidates: Sequence[np.ndarray]
    values: np.ndarray

    def like(self, own: np.ndarray, tolerance: float) -> np.ndarray | None:
        """The candidate with the columns of `own` up to signs, and to a rounding of the matrix; None if none has."""
        return next((c for c in self.candidates if self._are_alike(own, c, tolerance)), None)

    def same_signs(self, own: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> bool:
        """Whether left and right vectors have the same signs in `own` as in `others`, for values that are not 0."""
        turned = [np.sum(a * b, -2) < 0 for a, b in zip(own, others, strict=True)]
        values = np.abs(self.values)
        first, *rest = (t[..., : values.shape[-1]] for t in turned)
        counts = values > 1e-3 * values.max(-1, keepdims=True, initial=0)
        return all(bool((t == first)[counts].all()) for t in rest)

    def _are_alike(self, own: np.ndarray, other: np.ndarray, tolerance: float) -> bool:
        signs = np.where(np.sum(own * other, -2, keepdims=True) < 0, -1, 1)
        errors = np.abs(own * signs - other).max(-2)
        # A rounding e of the matrix turns a vector by e / gap, the distance to the nearest other value (Davis, Kahan).
        size = self.values.shape[-1]
        values = np.zeros((*self.values.shape[:-1], own.shape[-1]))
        values[..., :size] = self.values
        gaps = np.abs(values[..., :, None] - values[..., None, :]) + np.where(np.eye(own.shape[-1]), np.inf, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            moves = np.abs(values).max(-1, keepdims=True, initial=0) / gaps.min(-1, initial=np.inf)
        return bool(np.all(errors <= tolerance * np.fmax(moves, 1)))


def with_signs_of(others: Arrays, outputs: Arrays, signature: Signature) -> dict[str, np.ndarray]:
    """Outputs of a call, those that are vectors with the signs that others have; those of one matrix all turn alike."""
    by = producers(signature.graph)
    signed = dict(outputs)
    turned: dict[Any, np.ndarray] = {}
    for name, var in zip(signature.output_names, signature.graph.outputs, strict=False):
        eqn, along = by.get(var) if isinstance(var, Var) else None, -2
        if eqn is not None and eqn.op.moves == "permutes" and isinstance(eqn.inputs[0], Var):
            order = np.asarray(eqn.inputs[1]).tolist()
            is_transposed = order == [*range(len(order) - 2), len(order) - 1, len(order) - 2]
            eqn, along = by.get(eqn.inputs[0]) if is_transposed else None, -1
        is_vector = eqn is not None and _is_marked(eqn) and name in others and name in outputs
        if is_vector and others[name].shape == outputs[name].shape:
            is_turned = np.sum(others[name] * outputs[name], along) < 0
            first = turned.setdefault(_signs(eqn, by), is_turned)
            count = min(first.shape[-1], is_turned.shape[-1])
            is_turned = np.concatenate([first[..., :count], is_turned[..., count:]], -1)
            signed[name] = np.where(np.expand_dims(is_turned, along), -outputs[name], outputs[name])
    return signed


def _signs(eqn: Eqn | None, by: Mapping[Var, Eqn]) -> Any:
    """The signs by which an equation multiplies vectors; left and right ones have the same."""
    assert eqn is not None, "vectors are computed"
    signs = eqn.inputs[-1]
    while isinstance(signs, Var) and signs in by and by[signs].op.moves == "renames":
        signs = by[signs].inputs[0]
    return signs


def _is_marked(eqn: Eqn) -> bool:
    return OF_ANY_SIGN in eqn.source.node.split("/")


def source_vectors(graph: Graph, nodes: Nodes) -> dict[Var, SourceVectors]:
    """For each variable of vectors in a graph, what the source gives."""
    vectors: dict[Var, SourceVectors] = {}
    for eqn in graph.eqns:
        if not _is_marked(eqn):
            continue
        (var,), path = eqn.outputs, eqn.source.node.split("/")
        names = ("/".join(path[:n]) for n in range(len(path), 0, -1))
        results = next((nodes[name] for name in names if name in nodes), ())
        values = [r for r in results if r.ndim == len(var.type.shape) - 1]
        turned = [v for r in results if r.ndim == len(var.type.shape) for v in (r, r.swapaxes(-1, -2))]
        candidates = [v for v in turned if _fits(v, var)]
        if candidates and len(values) == 1:
            vectors[var] = SourceVectors(candidates, values[0])
    return vectors


def same_signs(
    of_source: Mapping[Var, SourceVectors], own: Mapping[Var, np.ndarray], others: Mapping[Var, np.ndarray]
) -> bool:
    """Whether vectors of the same values turn alike between two sides."""
    groups: dict[int, list[Var]] = {}
    for var, vectors in of_source.items():
        groups.setdefault(id(vectors.values), []).append(var)
    return all(
        of_source[group[0]].same_signs([own[v] for v in group], [others[v] for v in group]) for group in groups.values()
    )


def _fits(array: np.ndarray, var: Var) -> bool:
    sizes = zip(var.type.shape, array.shape, strict=True)
    return array.dtype == var.type.dtype.numpy and all(not is_known(d) or d == n for d, n in sizes)
