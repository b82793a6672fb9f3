"""A .tflite with one recurrent op, made by hand, and LiteRT on it: answers and states of several invokes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ai_edge_litert.schema_py_generated as schema
import flatbuffers
import jax
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from jfuse.ir.compilation import quick_jit

RESOLVERS = {"delegates": OpResolverType.AUTO, "builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
ACTIVATIONS = {"NONE": 0, "RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3, "TANH": 4, "SIGN_BIT": 5}
Arrays = list[np.ndarray]


def as_one_program(function: Callable[..., Any], arguments: Sequence[Any]) -> Arrays:
    """What a function of arrays, or of lists of arrays, gives: XLA compiles it once, not each of its operations."""
    wide = any(leaf.dtype == np.float64 for leaf in jax.tree_util.tree_leaves(arguments))
    with jax.enable_x64(wide):
        return [np.asarray(found) for found in quick_jit(function)(*arguments)]


@dataclass(frozen=True)
class OneOp:
    """One operator. `inputs` and `states` are places among its operands; other operands are constants.

    options: fields of the schema's table (`table`, without "Options"), spelled as there.
    """

    builtin: str
    table: str
    options: Mapping[str, Any]
    operands: Sequence[np.ndarray | None]
    inputs: Collection[int]
    states: Sequence[int]
    outputs: Sequence[tuple[int, ...]]

    def content(self) -> bytes:
        """The file; the state tensors are variables, so they live on between invokes."""
        graph, model = schema.SubGraphT(), schema.ModelT()
        graph.tensors, model.buffers = [], [schema.BufferT()]
        places = [self._tensor(model, graph, array, n) for n, array in enumerate(self.operands)]
        results = [self._tensor(model, graph, np.empty(shape, np.float32), -1) for shape in self.outputs]
        op = schema.OperatorT()
        op.opcodeIndex, op.inputs, op.outputs = 0, places, results
        op.builtinOptionsType = getattr(schema.BuiltinOptions, f"{self.table}Options")
        op.builtinOptions = getattr(schema, f"{self.table}OptionsT")()
        for field, value in self.options.items():
            assert hasattr(op.builtinOptions, field), field
            setattr(op.builtinOptions, field, value)
        graph.inputs, graph.outputs, graph.operators = [places[i] for i in self.inputs], results, [op]
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, self.builtin)
        code.version = 1
        model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _tensor(self, model: Any, graph: Any, array: np.ndarray | None, operand: int) -> int:
        if array is None:
            return -1
        tensor = schema.TensorT()
        tensor.name, tensor.type = f"t{len(graph.tensors)}", schema.TensorType.FLOAT32
        tensor.shape, tensor.buffer = list(array.shape), 0
        tensor.isVariable = operand in self.states
        if operand >= 0 and operand not in self.inputs and operand not in self.states:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(array.tobytes(), np.uint8)
            tensor.buffer = len(model.buffers)
            model.buffers.append(buffer)
        graph.tensors.append(tensor)
        return len(graph.tensors) - 1

    def invoke(self, invokes: Sequence[Arrays], resolver: str) -> list[Arrays]:
        """Results and states after each invoke of one interpreter; the states start at zero."""
        content = self.content()
        model = schema.ModelT.InitFromPackedBuf(content, 0)
        (operator,) = model.subgraphs[0].operators
        interpreter = Interpreter(model_content=content, experimental_op_resolver_type=RESOLVERS[resolver])
        interpreter.allocate_tensors()
        found = []
        for inputs in invokes:
            for place, array in zip(interpreter.get_input_details(), inputs, strict=True):
                interpreter.set_tensor(place["index"], array)
            interpreter.invoke()
            places = [*operator.outputs, *(operator.inputs[s] for s in self.states)]
            found.append([interpreter.get_tensor(int(p)).copy() for p in places])
        return found


def error(found: Any, wanted: np.ndarray) -> float:
    """max|a - b| / max|b|, as everywhere; over 1 where all of b is small."""
    assert np.shape(found) == wanted.shape
    return float(np.max(np.abs(found - wanted)) / max(np.max(np.abs(wanted)), 1.0))


def worst(found: Sequence[Any], wanted: Sequence[np.ndarray]) -> float:
    """The largest error of several results."""
    return max(error(f, w) for f, w in zip(found, wanted, strict=True))
