"""How long each operator of a file takes: cut out, and run alone in LiteRT on the values that it has in the file.

LiteRT's Python interpreter has no profiler. An operator alone is a file of its own: the delegate cannot join it with
its neighbours there, so the sum is more than the whole takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from statistics import median
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import JfuseError
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.running.loaded_file import LoadedFile
from jfuse.running.programs.device import Device
from jfuse.running.worker import LiteRtFailed, Refused
from jfuse.tflite.targets.file_operators import name_of


@dataclass(frozen=True)
class OperatorTime:
    """One operator of a file run alone in LiteRT.   name: of its first output; us: the median of a call

    us is None, with the reason, for operators that cannot run alone.
    """

    op: str
    name: str
    us: float | None
    reason: str = ""


MOST_OPERATORS = 400
"""Of one file: each is a file of its own that is loaded and run."""
_CALLS = 8  # in a row, of which the first two prepare
_RESOURCES = (schema.TensorType.RESOURCE, schema.TensorType.VARIANT)
_OMITTED = -1


def operator_times(
    data: bytes,
    key: str,
    inputs: Mapping[str, np.ndarray],
    limits: Limits = DEFAULT_LIMITS,
    device: Device | None = None,
    on_operator: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[OperatorTime, ...]:
    """The time of each operator of a signature, in the order in which they run.

    data: a file with signatures. device: where it runs; None for here. on_operator: called with the number of
    operators so far, and of all.

    Operators in the bodies of loops and branches count with their WHILE or IF. Raises JfuseError for a file of more
    than MOST_OPERATORS, and where LiteRT does not run it.
    """
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    number = next(s.subgraphIndex for s in model.signatureDefs if s.signatureKey == key.encode())
    graph = model.subgraphs[number]
    if len(graph.operators) > MOST_OPERATORS:
        raise JfuseError("too many operators to time alone", expected=f"at most {MOST_OPERATORS}")
    try:
        file = LoadedFile(data, preserve=True, limits=limits, device=device)
        file.ask("call", key, dict(inputs))
        stored = [_is_stored(model, tensor) for tensor in graph.tensors]
        held = file.ask("read", number, [i for i, is_stored in enumerate(stored) if not is_stored])
    except Refused as error:
        raise JfuseError("LiteRT does not run the file", found=str(error)) from error
    cut = _Cut(model, number, held)
    times = []
    for operator in graph.operators:
        times.append(cut.time(operator, limits, device))
        on_operator(len(times), len(graph.operators))
    return tuple(times)


class _Cut:
    """A file from which single operators are cut."""

    def __init__(self, model: Any, number: int, held: Mapping[int, np.ndarray]) -> None:
        self._model = model
        self._number = number
        self._graph = model.subgraphs[number]
        self._held = held

    def time(self, operator: Any, limits: Limits, device: Device | None) -> OperatorTime:
        """The time of one operator, or why it has none."""
        op = name_of(self._model.operatorCodes[operator.opcodeIndex])
        name = self._name(int(operator.outputs[0])) if len(operator.outputs) else ""
        tensors = [int(t) for t in operator.inputs if t != _OMITTED]
        if any(self._graph.tensors[t].type in _RESOURCES for t in (*tensors, *operator.outputs)):
            return OperatorTime(op, name, None, "works on a variable")
        fed = [t for t in dict.fromkeys(tensors) if not _is_stored(self._model, self._graph.tensors[t])]
        if not fed:
            return OperatorTime(op, name, None, "takes no input")
        if any(t not in self._held for t in fed):
            return OperatorTime(op, name, None, "an operand has no elements")
        try:
            file = LoadedFile(self._file(operator, fed), limits=limits, device=device)
            found = file.ask("timed", "operator", {f"input_{t}": self._held[t] for t in fed}, _CALLS)
        except Refused as error:
            return OperatorTime(op, name, None, str(error))
        except LiteRtFailed as error:
            return OperatorTime(op, name, None, error.message)
        return OperatorTime(op, name, 1e6 * median(found[2:]))

    def _name(self, tensor: int) -> str:
        return bytes(self._graph.tensors[tensor].name or b"").decode(errors="replace")

    def _file(self, operator: Any, fed: Sequence[int]) -> bytes:
        """A file with this operator alone; the bodies of a loop or a branch stay as they are."""
        model, graph = copy(self._model), copy(self._graph)
        used = sorted({int(t) for t in (*operator.inputs, *operator.outputs, *_intermediates(operator)) if t >= 0})
        place = {old: new for new, old in enumerate(used)}
        graph.tensors = [self._tensor(t, t in fed) for t in used]
        graph.inputs, graph.outputs = [place[t] for t in fed], [place[int(t)] for t in operator.outputs]
        alone = copy(operator)
        alone.inputs, alone.outputs = (
            [place.get(int(t), _OMITTED) for t in of] for of in (alone.inputs, alone.outputs)
        )
        alone.intermediates = [place[t] for t in _intermediates(operator)] or None
        graph.operators = [alone]
        table = schema.SignatureDefT()
        table.signatureKey = "operator"
        table.inputs = [schema.TensorMapT(f"input_{t}", place[t]) for t in fed]
        table.outputs = [schema.TensorMapT(f"output_{i}", t) for i, t in enumerate(graph.outputs)]
        # Bodies keep their numbers, as the graph with the operator alone takes the place of that with all.
        table.subgraphIndex = self._number if _has_bodies(operator) else 0
        model.subgraphs = list(self._model.subgraphs) if _has_bodies(operator) else [graph]
        model.subgraphs[table.subgraphIndex] = graph
        model.signatureDefs, model.metadata = [table], None
        needed = {t.buffer for g in model.subgraphs for t in g.tensors}
        model.buffers = [b if i in needed or not i else schema.BufferT() for i, b in enumerate(self._model.buffers)]
        builder = flatbuffers.Builder(2**16)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _tensor(self, number: int, is_fed: bool) -> Any:
        table = copy(self._graph.tensors[number])
        if is_fed:
            table.shape, table.shapeSignature = list(self._held[number].shape), None
            table.buffer = 0
        elif number in self._held:
            table.shape, table.shapeSignature = list(self._held[number].shape), None
        return table


def _is_stored(model: Any, tensor: Any) -> bool:
    """Whether the file holds a tensor: a constant, or a state of an operator."""
    return bool(tensor.isVariable) or model.buffers[tensor.buffer].data is not None


def _intermediates(operator: Any) -> list[int]:
    return [int(t) for t in operator.intermediates] if operator.intermediates is not None else []


def _has_bodies(operator: Any) -> bool:
    """Whether an operator runs other subgraphs."""
    return isinstance(
        operator.builtinOptions,
        schema.WhileOptionsT | schema.IfOptionsT | schema.CallOnceOptionsT | schema.CallOptionsT,
    )
