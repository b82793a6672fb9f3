"""Finds the operator that ends LiteRT's process, or takes all its time, by running files that stop before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.base.limits import Limits
from jfuse.ir.dims import symbols_of
from jfuse.ir.graph import Eqn, Graph, Var
from jfuse.ir.walk import rename_dims
from jfuse.running.litert_call import LiteRtCall
from jfuse.running.worker import LiteRtFailed

_PROBE_S = 5.0  # of one call: a bisection takes some ten of them
_FROM_THE_FILE = frozenset({"crash", "memory", "time"})


def failing_operator(
    graph: Graph, arrays: Sequence[np.ndarray] | None, failed: LiteRtFailed, limits: Limits, *, delegates: bool = False
) -> Eqn | None:
    """The first equation with which LiteRT fails in this way, where its operators before it run; None if none does.

    arrays: what the inputs of the graph hold; None where the file could not be loaded.
    """
    if failed.cause not in _FROM_THE_FILE or not graph.eqns:
        return None
    seconds = _PROBE_S if limits.seconds is None else min(_PROBE_S, limits.seconds)
    probes = _Probes(graph, arrays, failed.cause, replace(limits, seconds=seconds), delegates)
    right, wrong = 0, len(graph.eqns)
    if not probes.fails(wrong):
        return None
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if probes.fails(middle):
            wrong = middle
        else:
            right = middle
    return graph.eqns[wrong - 1]


class _Probes:
    def __init__(
        self, graph: Graph, arrays: Sequence[np.ndarray] | None, cause: str, limits: Limits, delegates: bool
    ) -> None:
        self._graph = graph if arrays is None else _sized(graph, arrays)
        self._arrays = arrays
        self._cause = cause
        self._limits = limits
        self._delegates = delegates

    def fails(self, count: int) -> bool:
        """Whether a file of the first operators fails as the whole one does; what LiteRT refuses does not."""
        eqns = self._graph.eqns[:count]
        shown = [var for var in eqns[-1].outputs if isinstance(var, Var)]
        cut = replace(self._graph, eqns=eqns, outputs=tuple(shown))
        try:
            call = LiteRtCall(cut, {}, limits=self._limits, delegates=self._delegates)
            if self._arrays is not None:
                call(self._arrays)
        except LiteRtFailed as error:
            return error.cause == self._cause
        except JfuseError:
            return False
        return False


def _sized(graph: Graph, arrays: Sequence[np.ndarray]) -> Graph:
    """The graph with the sizes of its inputs."""
    sizes: Mapping[str, int] = {
        str(d): int(n)
        for var, array in zip(graph.inputs, arrays, strict=True)
        for d, n in zip(var.type.shape, array.shape, strict=False)
        if symbols_of(d) == {str(d)}
    }
    return rename_dims(graph, sizes)
