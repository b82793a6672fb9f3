"""Reading a .tflite file as a program: one operator, one equation.

Types are derived anew from the operators and compared with those that the file states.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.errors import BadFlatbuffer, ImportFailed, JfuseError, LowerError, TypeMismatch
from jfuse.export.names import source_of
from jfuse.export.options import as_recorded, body_indices, from_table
from jfuse.export.schema import BUILTIN_NAMES, DTYPES, custom_code, is_custom, new_options
from jfuse.export.tensor_data import unpack
from jfuse.frontends.carried_types import carried_types
from jfuse.frontends.tflite_custom import record_custom
from jfuse.frontends.tflite_states import ON_VARIABLES, Held, StateNames, first_values
from jfuse.frontends.tflite_tables import ON_TABLES, Contents, filled_tables, lookup_operands
from jfuse.ir.dims import SymbolNames, is_known, same
from jfuse.ir.graph import Atom, Const, Graph, Op, Program, Signature, State, Var
from jfuse.ir.registry import find_op
from jfuse.ir.trace import active_trace, at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import rename_dims
from jfuse.kernels import ops as _declared  # noqa: F401 - declares every op, so that `find_op` knows it
from jfuse.kernels.op import TflOp, record

_IDENTIFIER = b"TFL3"
_SCHEMA_VERSION = 3
_DEFAULT_KEY = "serving_default"
_IN_FILE = 1  # Buffer.offset above this tells that the data lies behind the flatbuffer


def load_tflite(source: bytes | str | os.PathLike[str]) -> Program:
    """The program in a .tflite file, given as its bytes or its path. Constants are views of the file.

    Raises BadFlatbuffer where the bytes are no valid file, LowerError where they hold what jfuse has no op for.
    """
    data, place = (source, "the bytes") if isinstance(source, bytes) else (_mapped(Path(source)), str(source))
    try:
        return _File(_unpacked(data, place), data).program()
    except JfuseError as error:
        error.where = f"{place}, {error.where}" if error.where and error.where != place else place
        raise
    except Exception as error:  # whatever a check missed: a corrupt table can make anything of any field
        raise BadFlatbuffer("the file is corrupt", where=place, found=f"{type(error).__name__}: {error}") from error


def _mapped(path: Path) -> Any:
    try:
        return np.memmap(path, np.uint8, mode="r") if path.stat().st_size else b""
    except OSError as error:
        raise ImportFailed("the file cannot be read", where=str(path), found=error.strerror) from error


def _unpacked(data: Any, place: str) -> Any:
    """The generated module's objects for all tables; vectors are views of the bytes."""
    if len(data) < 8 or bytes(data[4:8]) != _IDENTIFIER:
        found = bytes(data[4:8])
        raise BadFlatbuffer("this is no .tflite file", where=place, expected=f"{_IDENTIFIER!r} at byte 4", found=found)
    try:
        model = schema.ModelT.InitFromPackedBuf(data, 0)
    except Exception as error:  # offsets that lead out of the file end in errors of any kind
        raise BadFlatbuffer(
            "the tables cannot be read", where=place, found=f"{type(error).__name__}: {error}"
        ) from error
    if model.version != _SCHEMA_VERSION:
        raise BadFlatbuffer("the schema's version differs", where=place, expected=_SCHEMA_VERSION, found=model.version)
    return model


class _File:
    """What the subgraphs of one file share: constants, operator codes, symbol names and the graphs read so far."""

    def __init__(self, model: Any, data: Any) -> None:
        self.names = SymbolNames()
        self.subgraphs: Sequence[Any] = model.subgraphs or ()
        self._signatures: Sequence[Any] = model.signatureDefs or ()
        self._buffers: Sequence[Any] = model.buffers or ()
        self._codes: Sequence[Any] = model.operatorCodes or ()
        self.data = data
        self._constants: dict[tuple[int, DType, tuple[int, ...]], Const] = {}
        self._entries: dict[int, Graph] = {}
        self._bodies: dict[Any, Graph] = {}
        self._open: list[int] = []
        self._states: dict[int, tuple[State, ...]] = {}

    @cached_property
    def state_names(self) -> StateNames:
        """The variables of the file, by the name that all subgraphs share, as CALL_ONCE makes them."""
        return StateNames({k: v for reader in self._called_once() for k, v in first_values(reader).items()})

    @cached_property
    def tables(self) -> dict[int, Contents]:
        """The contents of the tables of the file, by the number that all subgraphs share, as CALL_ONCE fills them."""
        return {k: v for reader in self._called_once() for k, v in filled_tables(reader).items()}

    def _called_once(self) -> list[_Subgraph]:
        calls = (
            int(operator.builtinOptions.initSubgraphIndex)
            for table in self.subgraphs
            for operator in table.operators or ()
            if self.builtin(operator) == "CALL_ONCE" and operator.builtinOptions is not None
        )
        return [_Subgraph(self, _index(i, len(self.subgraphs), "subgraph")) for i in dict.fromkeys(calls)]

    def program(self) -> Program:
        """All signatures; a file without any has one for its first subgraph."""
        if not self.subgraphs:
            raise BadFlatbuffer("the file has no subgraph")
        self._refuse_unknown()
        if not self._signatures:
            graph = self._entry(0)
            reader = _Subgraph(self, 0)
            inputs, outputs = (_unique([reader.name(i) for i in places]) for places in (reader.inputs, reader.outputs))
            return Program((Signature(_DEFAULT_KEY, graph, inputs, outputs, self._states[0]),))
        return Program(tuple(self._signature(table) for table in self._signatures))

    def builtin(self, operator: Any) -> str:
        """The name of an operator's builtin."""
        code = self.code(operator)
        number = max(
            code.builtinCode, code.deprecatedBuiltinCode
        )  # readers take the larger one, old files have the second
        if number not in BUILTIN_NAMES:
            raise BadFlatbuffer("an operator code is none of the schema's", found=number)
        return BUILTIN_NAMES[number] if number != _CUSTOM else custom_code(_text(code.customCode))

    def code(self, operator: Any) -> Any:
        """The table of an operator's code."""
        return self._codes[_index(operator.opcodeIndex, len(self._codes), "operator code")]

    def constant(self, tensor: Any, dtype: DType, shape: tuple[int, ...], where: str) -> Const | None:
        """The constant that a tensor stands for; None for one that is computed."""
        key = (int(tensor.buffer), dtype, shape)
        if key not in self._constants:
            data = self._bytes(_index(tensor.buffer, len(self._buffers), "buffer", where), where)
            if data is None:
                return None
            self._constants[key] = Const(unpack(data, dtype, shape, where), _text(tensor.name) or None)
        return self._constants[key]

    def body(self, index: int, types: Sequence[TensorType]) -> Graph:
        """A subgraph as the body of an equation with operands of these types."""
        reader = _Subgraph(self, _index(index, len(self.subgraphs), "subgraph"))
        if index in self._open:
            raise BadFlatbuffer("a subgraph calls itself", where=reader.where)
        if len(types) != len(reader.inputs):
            raise BadFlatbuffer(
                "a body takes another number of operands",
                where=reader.where,
                expected=len(types),
                found=len(reader.inputs),
            )
        for place, given in zip(reader.inputs, types, strict=True):
            reader.compare(place, given)
        # Symbols belong to one entry: equalities that a body states there hold there alone.
        entry = None if all(t.is_static for t in types) else self._open[0]
        key = (index, tuple(types), entry)
        if key not in self._bodies:
            variables = [Var(t, reader.name(i)) for t, i in zip(types, reader.inputs, strict=True)]
            self._bodies[key] = self._traced(reader, variables)
        return self._bodies[key]

    def _entry(self, index: int) -> Graph:
        if index not in self._entries:
            reader = _Subgraph(self, index)
            reader.held = Held.of(reader, self.state_names.variables)
            inputs = [Var(reader.input_type(i), reader.name(i)) for i in reader.inputs]
            states = [Var(state.initial.type, state.name) for state in reader.held.states]
            self._entries[index] = self._traced(reader, [*inputs, *states])
            self._states[index] = reader.held.states
        return self._entries[index]

    def _traced(self, reader: _Subgraph, variables: Sequence[Var]) -> Graph:
        self._open.append(reader.index)
        try:
            return trace_graph(reader.record, variables, reader.graph_name, self.names)
        finally:
            self._open.pop()

    def _bytes(self, index: int, where: str) -> np.ndarray | None:
        buffer = self._buffers[index]
        if buffer.offset > _IN_FILE:
            if buffer.offset + buffer.size > len(self.data):
                raise BadFlatbuffer("a buffer lies beyond the end of the file", where=where)
            return np.frombuffer(self.data, np.uint8, buffer.size, buffer.offset)
        return None if buffer.data is None or not len(buffer.data) else np.asarray(buffer.data)

    def _signature(self, table: Any) -> Signature:
        key = _text(table.signatureKey)
        where = f"signature {key!r}"
        index = _index(table.subgraphIndex, len(self.subgraphs), "subgraph", where)
        graph, reader = self._entry(index), _Subgraph(self, index)
        inputs = _names_in_order(table.inputs or (), reader.inputs, f"{where}, inputs")
        outputs = _names_in_order(table.outputs or (), reader.outputs, f"{where}, outputs")
        return Signature(key, graph, inputs, outputs, self._states[index])

    def _refuse_unknown(self) -> None:
        """Raise LowerError for all operators that jfuse has no op for, with counts."""
        found: Counter[str] = Counter()
        for index in range(len(self.subgraphs)):
            for operator in _Subgraph(self, index).operators:
                builtin = self.builtin(operator)
                known = is_custom(builtin) or builtin in ON_VARIABLES | ON_TABLES
                found[builtin] += _op_of(builtin) is None and not known
        unknown = {name: count for name, count in found.items() if count}
        if unknown:
            raise LowerError(
                f"jfuse has no op for {len(unknown)} of the file's builtins",
                found=", ".join(f"{name} ({count})" for name, count in unknown.items()),
                remedy="declare each with @tfl in kernels/",
            )


class _Subgraph:
    """One subgraph: checked access to its tensors, and its operators recorded as equations."""

    def __init__(self, file: _File, index: int) -> None:
        table = file.subgraphs[index]
        self.index = index
        self.graph_name = _text(table.name) or f"subgraph_{index}"
        self.where = f"subgraph {index}"
        self.operators: Sequence[Any] = table.operators or ()
        self._tensors: Sequence[Any] = table.tensors or ()
        self.inputs = self.places(table.inputs)
        self.outputs = self.places(table.outputs)
        self._file = file
        self._bound: dict[int, Atom] = {}
        self.held = Held(self)
        if len(set(self.inputs)) != len(self.inputs):
            raise BadFlatbuffer("an input is listed twice", where=self.where)

    def name(self, index: int) -> str:
        """The name of a tensor."""
        return _text(self._tensors[index].name)

    def calls(self) -> Iterator[tuple[str, Any]]:
        """The operators with the names of their builtins."""
        return ((self._file.builtin(operator), operator) for operator in self.operators)

    def state_tensors(self) -> list[int]:
        """The tensors that are marked as variable."""
        return [index for index, tensor in enumerate(self._tensors) if tensor.isVariable]

    def state_name(self, index: int) -> str:
        """A name for a state tensor, which no other state of the file has."""
        name = source_of(self.name(index)).node or f"state_{self.index}_{index}"
        return self._file.state_names.unique(name, (self.index, index))

    def input_type(self, index: int) -> TensorType:
        """The stated type of a tensor: each open dimension is a symbol of its own, B for axis 0 and N for others."""
        shape, dtype = self.declared(index)
        dims = (self._file.names.fresh("N" if axis else "B") if d < 0 else d for axis, d in enumerate(shape))
        return TensorType(tuple(dims), dtype)

    def compare(self, index: int, derived: TensorType) -> None:
        """Raise BadFlatbuffer where the file states another type than follows from the operators."""
        shape, dtype = self.declared(index)
        unranked = not shape and not self._tensors[index].hasRank
        dims = zip(shape, derived.shape, strict=False)
        fits = unranked or (len(shape) == derived.rank and all(d < 0 or same(d, e) is not False for d, e in dims))
        if dtype is not derived.dtype or not fits:
            stated = f"{dtype.value}[{','.join('?' if d < 0 else str(d) for d in shape)}]"
            where = self._tensor_place(index)
            raise BadFlatbuffer(
                "the file states another type than its operators give", where=where, expected=str(derived), found=stated
            )

    def record(self, *variables: Var) -> tuple[Atom | None, ...]:
        """Record all operators in the active trace; the results, then what the states hold after them."""
        count = len(self.inputs)
        self._bound = {**dict(zip(self.inputs, variables[:count], strict=True)), **self.held.start(variables[count:])}
        for number, operator in enumerate(self.operators):
            self._record(operator, f"{self.where} operator {number}")
        return (*(self.read(index) for index in self.outputs), *self.held.after(self._bound))

    def _record(self, operator: Any, where: str) -> None:
        builtin = self._file.builtin(operator)
        where = f"{where} ({builtin})"
        if builtin in ON_VARIABLES:
            self._bound |= self.held.record(builtin, operator, where)
            return
        if builtin in ON_TABLES:
            return
        outputs = self.places(operator.outputs)
        operands = self._operands(builtin, operator)
        op = _op_of(builtin)
        try:
            with at_source(source_of(self.name(outputs[0])) if outputs else source_of(";")):
                if is_custom(builtin):
                    self._bind(None, operator, self._custom(operator, operands, outputs), outputs, where)
                    return
                result = self.declared(outputs[0])[1] if outputs else None
                results = self._results(op, builtin, operands, _table_of(builtin, operator), result)
        except TypeMismatch as error:
            raise BadFlatbuffer(
                error.message, where=where, expected=error.expected, found=error.found, context=error.context
            ) from error
        except JfuseError as error:
            error.where = where if error.where is None else f"{where}, {error.where}"
            raise
        self._bind(op, operator, results, outputs, where)

    def _operands(self, builtin: str, operator: Any) -> list[Atom | None]:
        if builtin == "HASHTABLE_FIND":
            return lookup_operands(self, self._file.tables, operator)
        return [None if i == -1 else self.read(i) for i in self.places(operator.inputs, optional=True)]

    def _results(
        self, op: Any, builtin: str, operands: list[Atom | None], table: Any, result: DType | None
    ) -> Sequence[Var]:
        if not isinstance(op, TflOp):
            return self._structured(op, builtin, operands, table)
        params = from_table(builtin, table, tuple(op.options), result)
        as_recorded(builtin, operands, params)
        if not any(o.variadic for o in op.operands):
            if len(operands) > len(op.operands):
                raise BadFlatbuffer("too many operands", expected=len(op.operands), found=len(operands))
            operands += [None] * (len(op.operands) - len(operands))
        results = record(op, operands, params)
        if all(isinstance(r, Var) for r in results):
            return results
        # What follows from shapes alone folds while it is recorded; here the file is kept operator by operator.
        types = op.infer(operands, params)
        return active_trace().append(op, operands, types, params, values=[np.asarray(r) for r in results])

    def _custom(self, operator: Any, operands: list[Atom | None], outputs: Sequence[int]) -> Sequence[Var]:
        code = self._file.code(operator)
        for index in outputs:
            if not self.declared(index)[0] and not self._tensors[index].hasRank:
                raise LowerError("the result of a custom operator has no rank", where=self._tensor_place(index))
        types = [self.input_type(index) for index in outputs]
        return record_custom(_text(code.customCode), code.version, operator, operands, types, self._file.data)

    def _structured(self, op: Any, builtin: str, operands: list[Atom | None], table: Any) -> Sequence[Var]:
        if table is None or None in operands:
            raise BadFlatbuffer("an operator with bodies needs its options and all its operands")
        trace = active_trace()
        atoms = [a for a in operands if a is not None]
        carried = atoms[1:] if builtin == "IF" else atoms  # the first operand of IF is the flag
        types, opened = [a.type for a in carried], set[str]()
        while True:
            bodies = [self._file.body(i, [*map(trace.resolve, types)]) for i in body_indices(builtin, table)]
            renewed = carried_types(bodies[1], opened) if builtin == "WHILE" else types
            if renewed == types:
                break
            types = renewed
        # After the bodies, which may equate sizes, also of those read before.
        resolved = [Var(trace.resolve(a.type)) for a in atoms]
        renamed = {id(body): rename_dims(body, trace.sizes) for body in bodies}
        bodies = [renamed[id(body)] for body in bodies]
        return trace.append(op, operands, op.infer(resolved, {}, bodies), {}, bodies)

    def _bind(self, op: Any, operator: Any, results: Sequence[Var], outputs: Sequence[int], where: str) -> None:
        """Bind the results to the operator's outputs, and new states to the tensors that they overwrite."""
        updates = op.new_states(len(results)) if isinstance(op, TflOp) else {}
        plain = [r for i, r in enumerate(results) if i not in updates.values()]
        if len(plain) != len(outputs):
            raise BadFlatbuffer(
                "an operator has another number of outputs", where=where, expected=len(plain), found=len(outputs)
            )
        for index, result in zip(outputs, plain, strict=True):
            if index in self._bound:
                raise BadFlatbuffer("a tensor is written twice", where=self._tensor_place(index))
            self.compare(index, result.type)
            for stated, dim in zip(self.declared(index)[0], result.type.shape, strict=False):
                if stated > 0 and not is_known(dim):  # what reads a result may need a size that only the file tells
                    active_trace().equate(dim, stated)
            self._bound[index] = result
        inputs = self.places(operator.inputs, optional=True)
        for operand, position in updates.items():
            index = inputs[op.operand_index(operand)]
            if not self._tensors[index].isVariable:
                raise BadFlatbuffer(f"the state {operand} is no variable tensor", where=where)
            self._bound[index] = results[position]

    def read(self, index: int) -> Atom:
        """What a tensor holds by now."""
        if index in self._bound:
            return self._bound[index]
        tensor = self._tensors[index]
        shape, dtype = self.declared(index)
        where = self._tensor_place(index)
        if tensor.isVariable:
            raise LowerError(
                "a state is kept from one turn of a loop or branch to the next",
                where=where,
                expected="a state that an operator writes before it is read",
            )
        found = self._file.constant(tensor, dtype, shape, where)
        if found is None and 0 in shape and dtype is not DType.string:
            found = Const(
                np.zeros([max(d, 0) for d in shape], dtype.numpy)
            )  # without bytes it cannot be told from others
        if found is None:
            raise BadFlatbuffer("a tensor is read before it is written", where=where)
        return found

    def declared(self, index: int) -> tuple[tuple[int, ...], DType]:
        """The shape, -1 where it is open, and the dtype that the file states for a tensor."""
        tensor = self._tensors[index]
        where = self._tensor_place(index)
        if tensor.type not in DTYPES:
            raise BadFlatbuffer("a tensor has an unknown type", where=where, found=tensor.type)
        quantization = tensor.quantization
        if tensor.sparsity is not None or (
            quantization is not None and quantization.scale is not None and len(quantization.scale)
        ):
            raise LowerError("quantized and sparse tensors are not read", where=where, remedy="load the float model")
        shape = _ints(tensor.shape)
        signature = _ints(tensor.shapeSignature) if tensor.shapeSignature is not None else shape
        if len(signature) != len(shape) or any(d < -1 for d in signature) or any(d < 0 for d in shape):
            raise BadFlatbuffer("a tensor has an impossible shape", where=where, found=f"{shape}, {signature}")
        return signature, DTYPES[tensor.type]

    def places(self, vector: Any, *, optional: bool = False) -> tuple[int, ...]:
        """The tensors that a vector names; -1 for an omitted operand where it may be one."""
        places = _ints(vector)
        for place in places:
            if not (optional and place == -1):
                _index(place, len(self._tensors), "tensor", self.where)
        return places

    def _tensor_place(self, index: int) -> str:
        return f"{self.where} tensor {index} {self.name(index)!r}"


_CUSTOM = schema.BuiltinOperator.CUSTOM


def _op_of(builtin: str) -> Op | None:
    op = find_op(builtin.lower())
    return op if getattr(op, "builtin", None) == builtin else None


def _table_of(builtin: str, operator: Any) -> Any:
    """The operator's option table; raises BadFlatbuffer where it is another op's."""
    union, number, _ = new_options(builtin)
    fields = (
        (operator.builtinOptionsType, operator.builtinOptions),
        (operator.builtinOptions2Type, operator.builtinOptions2),
    )
    (found, table), (other, _) = fields if union == 1 else reversed(fields)
    if found not in (0, number) or other != 0:
        raise BadFlatbuffer("an operator has the options of another op", expected=number, found=(found, other))
    return table


def _names_in_order(maps: Sequence[Any], places: Sequence[int], where: str) -> tuple[str, ...]:
    """The names of the tensors at `places`; the file may list them in any order."""
    names: dict[int, list[str]] = {}
    for entry in maps:
        names.setdefault(int(entry.tensorIndex), []).append(_text(entry.name))
    if sorted(places) != sorted(index for index, group in names.items() for _ in group):
        raise BadFlatbuffer(
            "a signature does not name each tensor once", where=where, expected=sorted(places), found=sorted(names)
        )
    found = tuple(names[place].pop(0) for place in places)
    if len(set(found)) != len(found):
        raise BadFlatbuffer("two tensors of a signature have one name", where=where, found=found)
    return found


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name if names.count(name) == 1 and name else f"{name}_{i}" for i, name in enumerate(names))


def _index(value: int, count: int, what: str, where: str | None = None) -> int:
    if not 0 <= value < count:
        raise BadFlatbuffer(f"there is no such {what}", where=where, expected=f"below {count}", found=value)
    return int(value)


def _ints(vector: Any) -> tuple[int, ...]:
    return () if vector is None else tuple(int(v) for v in vector)


def _text(value: Any) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else value or ""
    except UnicodeDecodeError as error:
        raise BadFlatbuffer("a name is not UTF-8", found=value) from error
