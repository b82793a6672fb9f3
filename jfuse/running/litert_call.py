"""A few equations as a file of their own, run in the LiteRT interpreter."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from jfuse.errors import JfuseError, LowerError
from jfuse.ir.graph import Const, Graph, Program, Signature, State
from jfuse.ir.text import format_graph
from jfuse.ir.walk import rename_dims
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes


class LiteRtCall:
    """One graph of static types in an interpreter without delegates: the integers that every runtime's kernels give.

    states: the positions of the inputs and outputs of the graph that are one operand updated in place, by input. They
    are written into the operator's tensor before each call and read from it after.
    """

    def __init__(self, graph: Graph, states: Mapping[int, int]) -> None:
        self._plain = [i for i in range(len(graph.inputs)) if i not in states]
        self._results = [i for i in range(len(graph.outputs)) if i not in states.values()]
        self._states = list(states.items())
        self._count = len(graph.outputs)
        self._interpreter = _interpreter(_file(graph, self._plain, self._results, self._states), graph)
        self._lock = threading.Lock()  # XLA runs callbacks in threads of its own
        self._inputs = [d["index"] for d in self._interpreter.get_input_details()]
        self._outputs = [d["index"] for d in self._interpreter.get_output_details()]
        named = {d["name"]: d["index"] for d in self._interpreter.get_tensor_details()}
        self._held = [named[_state_name(i)] for i, _ in self._states]

    def __call__(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The results of the graph for its inputs."""
        found: list[Any] = [None] * self._count
        with self._lock:
            try:
                for tensor, i in zip(self._inputs, self._plain, strict=True):
                    self._interpreter.set_tensor(tensor, arrays[i])
                for tensor, (i, _) in zip(self._held, self._states, strict=True):
                    self._interpreter.set_tensor(tensor, arrays[i])
                self._interpreter.invoke()
            except (ValueError, RuntimeError) as error:
                raise JfuseError("LiteRT does not run this", found=" ".join(str(error).split())) from error
            for tensor, i in zip(self._outputs, self._results, strict=True):
                found[i] = self._interpreter.get_tensor(tensor)
            for tensor, (_, i) in zip(self._held, self._states, strict=True):
                found[i] = self._interpreter.get_tensor(tensor)
        return tuple(found)


_CALLS: OrderedDict[tuple[str, tuple[tuple[int, int], ...]], LiteRtCall] = OrderedDict()
_MOST_CALLS = 256  # interpreters; each holds a copy of the constants of its equations
_CALLS_LOCK = threading.Lock()


def litert_call(graph: Graph, states: Mapping[int, int], sizes: Mapping[str, int]) -> LiteRtCall:
    """The call of a graph whose symbols have these sizes, the same for equal types, options and constants.

    Raises LowerError where LiteRT has no kernel for it.
    """
    graph = rename_dims(graph, sizes)
    key = (format_graph(replace(graph, name=""), sources=False, known=False), tuple(states.items()))
    with _CALLS_LOCK:
        if key not in _CALLS:
            if len(_CALLS) >= _MOST_CALLS:
                _CALLS.popitem(last=False)
            _CALLS[key] = LiteRtCall(graph, states)
        _CALLS.move_to_end(key)
        return _CALLS[key]


def _file(graph: Graph, plain: Sequence[int], results: Sequence[int], states: Sequence[tuple[int, int]]) -> bytes:
    kept = []
    for i, _ in states:
        t = graph.inputs[i].type
        kept.append(State(_state_name(i), Const(np.zeros([int(d) for d in t.shape], t.dtype.numpy)), "tensor"))
    graph = replace(
        graph,
        inputs=tuple(graph.inputs[i] for i in (*plain, *(i for i, _ in states))),
        outputs=tuple(graph.outputs[i] for i in (*results, *(o for _, o in states))),
    )
    inputs = tuple(f"input_{i}" for i in plain)
    outputs = tuple(f"output_{i}" for i in results)
    graph = prepare_outputs(graph, states=len(states))
    return to_bytes(Program((Signature("call", graph, inputs, outputs, tuple(kept)),)))


def _state_name(position: int) -> str:
    return f"state of input {position}"


def _interpreter(data: bytes, graph: Graph) -> Interpreter:
    try:
        interpreter = Interpreter(
            model_content=data,
            num_threads=1,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        names = ", ".join(dict.fromkeys(eqn.op.name for eqn in graph.eqns))
        raise LowerError(
            f"LiteRT cannot run {names}, and jfuse has no kernel for it on these types",
            where=str(graph.eqns[0].source) or None,
            found=" ".join(str(error).split()),
            context=str(graph.eqns[0]),
        ) from error
    return interpreter
