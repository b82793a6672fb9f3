"""A few equations as a file of their own, run in the LiteRT interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from jfuse.base.errors import JfuseError, LowerError
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.base.memo import Memo
from jfuse.ir.dims import same
from jfuse.ir.graph import Const, Graph, Program, Signature, State
from jfuse.ir.text import format_graph
from jfuse.ir.types import TensorType
from jfuse.ir.walk import rename_dims
from jfuse.running.loaded_file import LoadedFile
from jfuse.running.worker import Refused
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes


class LiteRtCall:
    """One graph of static types in an interpreter without delegates: the integers that every runtime's kernels give.

    Custom operators run with the default delegates: XNNPACK has the only kernels of some.
    states: the positions of the inputs and outputs of the graph that are one operand updated in place, by input. They
    are written into the operator's tensor before each call and read from it after.
    """

    def __init__(
        self, graph: Graph, states: Mapping[int, int], *, limits: Limits = DEFAULT_LIMITS, delegates: bool = False
    ) -> None:
        self._plain = [i for i in range(len(graph.inputs)) if i not in states]
        self._results = [i for i in range(len(graph.outputs)) if i not in states.values()]
        self._states = list(states.items())
        self._types = [atom.type for atom in graph.outputs]
        data = _file(graph, self._plain, self._results, self._states)
        delegates = delegates or any(eqn.op.code is not None for eqn in graph.eqns)
        try:
            self._file = LoadedFile(data, delegates=delegates, allocate=True, stateless=True, limits=limits)
        except Refused as error:
            raise _no_kernel(graph, error) from error
        self._inputs, self._outputs, named = self._file.ask("tensors")
        self._held = [named[_state_name(i)] for i, _ in self._states]

    def __call__(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The results of the graph for its inputs."""
        (results,) = self.rows([arrays])
        return results

    def rows(self, rows: Sequence[Sequence[np.ndarray]]) -> list[tuple[np.ndarray, ...]]:
        """The results for several calls, each from the states that it is given."""
        before = [
            {
                **{tensor: row[i] for tensor, i in zip(self._inputs, self._plain, strict=True)},
                **{tensor: row[i] for tensor, (i, _) in zip(self._held, self._states, strict=True)},
            }
            for row in rows
        ]
        try:
            answers = self._file.ask("rows", before, [*self._outputs, *self._held])
        except Refused as error:
            raise JfuseError("LiteRT does not run this", found=str(error)) from error
        places = [*self._results, *(i for _, i in self._states)]
        ordered = [tuple(row[places.index(i)] for i in range(len(self._types))) for row in answers]
        for row in ordered:
            for array, stated in zip(row, self._types, strict=True):
                _need_stated(array, stated)
        return ordered


_CALLS: Memo[LiteRtCall] = Memo(256)
"""Interpreters; each holds a copy of the constants of its equations."""


def litert_call(
    graph: Graph, states: Mapping[int, int], sizes: Mapping[str, int], limits: Limits = DEFAULT_LIMITS
) -> LiteRtCall:
    """The call of a graph whose symbols have these sizes, the same for equal types, options and constants.

    Raises LowerError where LiteRT has no kernel for it.
    """
    graph = rename_dims(graph, sizes)
    key = (format_graph(replace(graph, name=""), sources=False, known=False), tuple(states.items()), limits)
    return _CALLS.get(key, lambda: LiteRtCall(graph, states, limits=limits))


def _file(graph: Graph, plain: Sequence[int], results: Sequence[int], states: Sequence[tuple[int, int]]) -> bytes:
    held_states = []
    for i, _ in states:
        t = graph.inputs[i].type
        held_states.append(State(_state_name(i), Const(np.zeros([int(d) for d in t.shape], t.dtype.numpy)), "tensor"))
    graph = replace(
        graph,
        inputs=tuple(graph.inputs[i] for i in (*plain, *(i for i, _ in states))),
        outputs=tuple(graph.outputs[i] for i in (*results, *(o for _, o in states))),
    )
    inputs = tuple(f"input_{i}" for i in plain)
    outputs = tuple(f"output_{i}" for i in results)
    graph = prepare_outputs(graph, states=len(states))
    return to_bytes(Program((Signature("call", graph, inputs, outputs, tuple(held_states)),)))


def _state_name(position: int) -> str:
    return f"state of input {position}"


def _need_stated(array: np.ndarray, stated: TensorType) -> None:
    """Raise JfuseError for a result of another type than the program has: of integers a file may state any shape."""
    shapes = not stated.ranked or (
        array.ndim == stated.rank
        and all(same(d, n) is not False for d, n in zip(stated.shape, array.shape, strict=True))
    )
    if not shapes or array.dtype != stated.dtype.numpy:
        actual = f"{array.dtype}{list(array.shape)}"
        raise JfuseError(
            "LiteRT gives a result of another type than the file states", expected=str(stated), found=actual
        )


def _no_kernel(graph: Graph, error: Refused) -> LowerError:
    names = ", ".join(dict.fromkeys(eqn.op.name for eqn in graph.eqns))
    return LowerError(
        f"LiteRT cannot run {names}, and jfuse has no kernel for it on these types",
        where=str(graph.eqns[0].source) or None,
        found=str(error),
        context=str(graph.eqns[0]),
    )
