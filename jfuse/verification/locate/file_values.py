"""The values that LiteRT computes for every equation of a file, bodies included: its interpreter keeps all tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.graph import Eqn, Graph, Signature, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType
from jfuse.opaque_ops.state_operands import state_operands
from jfuse.running.loaded_file import LoadedFile
from jfuse.running.worker import Refused
from jfuse.tflite.options import body_indices
from jfuse.tflite.read.states import ON_VARIABLES
from jfuse.tflite.read.tables import ON_TABLES
from jfuse.tflite.schema import BUILTIN_NAMES
from jfuse.tflite.write.tables import is_lookup
from jfuse.verification.locate.local_errors import LocalStep, Walk
from jfuse.verification.locate.quantization_mismatch import Scales, stated
from jfuse.verification.runners.node_values import Value

_IN_FILE = 1  # Buffer.offset above this: the data lies behind the flatbuffer, and the tables cannot be written anew
_KEY = "subgraph {}"
_NO_ARRAYS = frozenset({DType.resource, DType.variant})


class OtherFile(Exception):
    """The file does not hold the graph that it is compared with, operator by operator."""


@dataclass
class RunValues:
    """LiteRT's values of one run of one graph, by variable, without overwritten ones."""

    of: Mapping[Var, np.ndarray]
    run: FileRun
    subgraph: int
    certain: bool = True

    def results(self, number: int, eqn: Eqn, computed: Sequence[Value]) -> Sequence[Value]:
        """The values that LiteRT gave for an equation's results, None where they are overwritten."""
        return [self.of.get(var) for var in eqn.outputs]

    def enter(
        self, walk: Walk, step: LocalStep, body: int, turn: int, operands: Sequence[np.ndarray]
    ) -> RunValues | None:
        """LiteRT's values of a body that is run alone on these operands."""
        return self.run.enter(walk.graph, self.subgraph, step, body, operands)

    def candidates(self, eqn: Eqn, shape: Sequence[int], dtype: np.dtype) -> Iterable[np.ndarray]:
        """None: every value's place is known."""
        return ()


@dataclass
class _Places:
    """Where the variables of a graph live: their tensors, the inputs that are variables of the file, by state."""

    tensors: dict[Var, int] = field(default_factory=dict)
    last: dict[int, Var] = field(default_factory=dict)  # of those that share a tensor, the one whose value it ends with
    operators: list[Any] = field(default_factory=list)


class FileRun:
    """One interpreter, without delegates, for calls in a row of one file.

    Every subgraph can be run alone, on operands of its own.
    """

    def __init__(self, data: bytes, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._model = schema.ModelT.InitFromPackedBuf(data, 0)
        self._codes = [max(c.builtinCode, c.deprecatedBuiltinCode) for c in self._model.operatorCodes or ()]
        self._indices = {_text(s.signatureKey): int(s.subgraphIndex) for s in self._model.signatureDefs or ()}
        self._enters = not any(b.offset > _IN_FILE for b in self._model.buffers)
        self._data = data
        self._interpreter = self._load(data)
        self._bodies: LoadedFile | None = None
        self._places: dict[tuple[int, int], _Places] = {}
        self._called = False

    def call(self, signature: Signature, inputs: Mapping[str, np.ndarray]) -> tuple[list[Value], RunValues]:
        """One call of a signature: the inputs of its graph (None for states that cannot be seen), and all values."""
        index = self._indices.get(signature.key, 0)
        places = self._places_of(signature.graph, index)
        count = len(signature.graph.inputs) - len(signature.states)
        states = self._held(signature, places, index)
        key = signature.key if self._indices else None
        self._interpreter.ask("call", key, {name: np.asarray(inputs[name]) for name in signature.input_names})
        self._called = True
        values = self._values(self._interpreter, places, index)
        operands: list[Value] = [np.asarray(inputs[name]) for name in signature.input_names]
        for var in signature.graph.inputs[count:]:
            operands.append(
                states[var] if var in states else values.get(var)
            )  # READ_VARIABLE's result is kept as it was
        return operands, RunValues(values, self, index)

    def scales(self, signature: Signature) -> Scales:
        """How the file quantizes the results of the equations of a signature."""
        index = self._indices.get(signature.key, 0)
        places = self._places_of(signature.graph, index).tensors
        tensors = self._model.subgraphs[index].tensors
        scales: dict[Var, Quantization | None] = {}
        for var in (v for eqn in signature.graph.eqns for v in eqn.outputs if v in places):
            of = tensors[places[var]].quantization
            scales[var] = None if of is None else stated(of.scale, of.zeroPoint, int(of.quantizedDimension))
        return scales

    def enter(
        self, outer: Graph, subgraph: int, step: LocalStep, body: int, operands: Sequence[np.ndarray]
    ) -> RunValues | None:
        """The values of one run of a body of an equation of `outer` on these operands; None where LiteRT refuses."""
        if not self._enters:
            return None
        if self._bodies is None:
            self._bodies = self._load(self._with_keys())
        operator = self._places_of(outer, subgraph).operators[step.number]
        index = body_indices(self._builtin(operator), operator.builtinOptions)[body]
        try:
            places = self._places_of(step.eqn.bodies[body], index)
            operands_by_name = {f"i{n}": np.asarray(value) for n, value in enumerate(operands)}
            self._bodies.ask("call", _KEY.format(index), operands_by_name)
        except (OtherFile, Refused):
            return None
        return RunValues(self._values(self._bodies, places, index), self, index)

    def before(self, signature: Signature, inputs: Mapping[str, np.ndarray], number: int) -> Mapping[Var, np.ndarray]:
        """The values of a first call of a signature up to an equation, which is not run any more.

        Tensors that later operators overwrite are still intact.
        """
        index = self._indices.get(signature.key, 0)
        places = self._places_of(signature.graph, index)
        table = self._model.subgraphs[index]
        tensors = self._before(index, places.operators[number])
        outputs = list(tensors[-1].outputs) if tensors else []
        if not self._enters or not outputs:
            return {}
        cut = self._written({index: (tensors, outputs)}, [_entry(_KEY.format(index), index, table.inputs, outputs)])
        interpreter = self._load(cut)
        names = {f"i{n}": np.asarray(inputs[name]) for n, name in enumerate(signature.input_names)}
        interpreter.ask("call", _KEY.format(index), names)
        made = [var for eqn in signature.graph.eqns[:number] for var in eqn.outputs if var in places.tensors]
        last = {places.tensors[var]: var for var in made}
        held = interpreter.ask("read", index, list(last))
        return {var: held[tensor] for tensor, var in last.items() if tensor in held}

    def showing(self, signature: Signature, numbers: Sequence[int]) -> tuple[bytes, dict[str, Var]]:
        """The file with the results of some equations of a signature as its outputs, and whose they are by name.

        It ends with the last of these equations. Raises OtherFile where the file cannot be written anew.
        """
        if not self._enters:
            raise OtherFile(signature.graph.name)
        index = self._indices.get(signature.key, 0)
        places = self._places_of(signature.graph, index)
        table = self._model.subgraphs[index]
        last = places.operators[max(numbers)]
        tensors = {
            places.tensors[v]: v for n in numbers for v in signature.graph.eqns[n].outputs if v in places.tensors
        }
        untouched = {i for i, t in enumerate(table.tensors) if t.isVariable}.union(map(int, table.inputs))
        shown = {t: v for t, v in tensors.items() if t not in untouched and v.type.dtype not in _NO_ARRAYS}
        entry = _entry(signature.key, index, table.inputs, list(shown))
        for tensor_map, name in zip(entry.inputs, signature.input_names, strict=True):
            tensor_map.name = name
        others = [s for s in self._model.signatureDefs or () if _text(s.signatureKey) != signature.key]
        data = self._written({index: ([*self._before(index, last), last], list(shown))}, [entry, *others])
        return data, {f"o{n}": var for n, var in enumerate(shown.values())}

    def _before(self, index: int, last: Any) -> list[Any]:
        """The operators of a subgraph before one of them."""
        operators = list(self._model.subgraphs[index].operators)
        return operators[: next(i for i, o in enumerate(operators) if o is last)]

    def _held(self, signature: Signature, places: _Places, index: int) -> dict[Var, Value]:
        """Contents of the state tensors before a call."""
        count = len(signature.graph.inputs) - len(signature.states)
        variables = {i for i, t in enumerate(self._model.subgraphs[index].tensors) if t.isVariable}
        holds = self._interpreter.ask("read", index, sorted(variables)) if self._called and variables else {}
        contents: dict[Var, Value] = {}
        for var, state in zip(signature.graph.inputs[count:], signature.states, strict=True):
            tensor = places.tensors.get(var)
            if tensor in variables:
                contents[var] = holds.get(tensor, np.zeros_like(state.initial.array))
        return contents

    def _values(self, interpreter: LoadedFile, places: _Places, index: int) -> dict[Var, np.ndarray]:
        held = interpreter.ask("read", index, list(places.last))  # what is not allocated has no elements
        return {var: held[tensor] for tensor, var in places.last.items() if tensor in held}

    def _load(self, data: bytes) -> LoadedFile:
        return LoadedFile(data, delegates=False, preserve=True, limits=self._limits)

    def _places_of(self, graph: Graph, index: int) -> _Places:
        """Pair equations and operators, one by one; OtherFile where there are more or less of them."""
        key = (id(graph), index)
        if key not in self._places:
            table = self._model.subgraphs[index]
            operators = [o for o in table.operators or () if self._builtin(o) not in ON_VARIABLES | ON_TABLES]
            if len(operators) != len(graph.eqns):
                raise OtherFile(graph.name)
            places = self._places[key] = _Places(operators=operators)
            for var, tensor in zip(graph.inputs, table.inputs if table.inputs is not None else (), strict=False):
                _bind(places, var, int(tensor))
            for eqn, operator in zip(graph.eqns, operators, strict=True):
                _pair(places, eqn, operator)
        return self._places[key]

    def _builtin(self, operator: Any) -> str:
        return BUILTIN_NAMES.get(self._codes[operator.opcodeIndex], "")

    def _with_keys(self) -> bytes:
        """The file with a signature for each subgraph."""
        tables = enumerate(self._model.subgraphs)
        more = [_entry(_KEY.format(i), i, table.inputs, table.outputs) for i, table in tables]
        return self._written({}, [*(self._model.signatureDefs or ()), *more])

    def _written(self, cut: Mapping[int, tuple[Sequence[Any], Sequence[int]]], signatures: Sequence[Any]) -> bytes:
        """The file with other signatures, and other operators and results in some subgraphs."""
        model, tables = copy(self._model), list(self._model.subgraphs)
        for index, (operators, outputs) in cut.items():
            tables[index] = copy(tables[index])
            tables[index].operators, tables[index].outputs = operators, outputs
        model.subgraphs, model.signatureDefs = tables, signatures
        builder = flatbuffers.Builder(len(self._data) + 2**16)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def _pair(places: _Places, eqn: Eqn, operator: Any) -> None:
    operands = [int(i) for i in operator.inputs]
    # The contents of a table are no operands of the operator that looks something up, its handle is.
    pairs = (
        zip(eqn.inputs[2:], operands[1:], strict=True) if is_lookup(eqn) else zip(eqn.inputs, operands, strict=False)
    )
    for atom, tensor in pairs:
        if isinstance(atom, Var) and atom not in places.tensors:
            _bind(places, atom, tensor)
    updates = state_operands(eqn)
    for operand, position in updates.items():
        if operand < len(operands):
            _bind(places, eqn.outputs[position], operands[operand])
    plain = [var for i, var in enumerate(eqn.outputs) if i not in updates.values()]
    if len(plain) != len(operator.outputs):
        raise OtherFile(eqn.op.name)
    for var, tensor in zip(plain, operator.outputs, strict=True):
        _bind(places, var, int(tensor))


def _bind(places: _Places, var: Var, tensor: int) -> None:
    places.tensors[var] = tensor
    places.last[tensor] = var


def _entry(key: str, subgraph: int, inputs: Sequence[int], outputs: Sequence[int]) -> Any:
    table = schema.SignatureDefT()
    table.signatureKey, table.subgraphIndex = key, subgraph
    table.inputs = [schema.TensorMapT(f"i{n}", int(t)) for n, t in enumerate(inputs)]
    table.outputs = [schema.TensorMapT(f"o{n}", int(t)) for n, t in enumerate(outputs)]
    return table


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
