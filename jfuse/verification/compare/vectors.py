"""Eigenvectors and singular vectors: right with either sign, and in any basis where their values are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jfuse.frontends.jaxprs.eigen_spellings import OF_ANY_SIGN
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Eqn, Graph, Signature, Var
from jfuse.ir.walk import producers
from jfuse.kernels import ops
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
    """Outputs of a call, those that are vectors with the signs that others have."""
    by = producers(signature.graph)
    signed = dict(outputs)
    for name, var in zip(signature.output_names, signature.graph.outputs, strict=False):
        eqn, along = by.get(var) if isinstance(var, Var) else None, -2
        if eqn is not None and eqn.op is ops.transpose and isinstance(eqn.inputs[0], Var):
            order = np.asarray(eqn.inputs[1]).tolist()
            is_transposed = order == [*range(len(order) - 2), len(order) - 1, len(order) - 2]
            eqn, along = by.get(eqn.inputs[0]) if is_transposed else None, -1
        is_vector = eqn is not None and _is_marked(eqn) and name in others and name in outputs
        if is_vector and others[name].shape == outputs[name].shape:
            is_turned = np.sum(others[name] * outputs[name], along, keepdims=True) < 0
            signed[name] = np.where(is_turned, -outputs[name], outputs[name])
    return signed


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


def _fits(array: np.ndarray, var: Var) -> bool:
    sizes = zip(var.type.shape, array.shape, strict=True)
    return array.dtype == var.type.dtype.numpy and all(not is_known(d) or d == n for d, n in sizes)
