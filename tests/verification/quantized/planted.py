"""Faults in quantized files, planted in the bytes: each keeps all types and shapes, so that LiteRT runs the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

_CODES = {v: k for k, v in vars(schema.BuiltinOperator).items() if not k.startswith("_")}
_ELEMENTS = {
    schema.TensorType.INT8: np.int8,
    schema.TensorType.INT32: np.int32,
    schema.TensorType.INT64: np.int64,
    schema.TensorType.FLOAT32: np.float32,
    schema.TensorType.FLOAT16: np.float16,
}


@dataclass
class Opened:
    """The objects of a file with one graph."""

    model: Any

    @property
    def graph(self) -> Any:
        """The graph."""
        return self.model.subgraphs[0]

    def operators(self, builtin: str) -> list[Any]:
        """The operators of a builtin, in order."""
        codes = [max(c.builtinCode, c.deprecatedBuiltinCode) for c in self.model.operatorCodes]
        return [o for o in self.graph.operators if _CODES[codes[o.opcodeIndex]] == builtin]

    def tensor(self, place: int) -> Any:
        """A tensor."""
        return self.graph.tensors[place]

    def weights(self, place: int) -> Any:
        """The tensor that holds an operand's numbers: of one behind a DEQUANTIZE the one before it."""
        before = next((o for o in self.operators("DEQUANTIZE") if o.outputs[0] == place), None)
        return self.tensor(place if before is None else before.inputs[0])

    def array(self, tensor: Any) -> np.ndarray:
        """The elements of a constant."""
        data = np.asarray(self.model.buffers[tensor.buffer].data, np.uint8)
        return data.view(_ELEMENTS[tensor.type]).reshape(tensor.shape).copy()

    def write(self, tensor: Any, array: np.ndarray) -> None:
        """Put other elements into a constant, in a buffer of its own."""
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(array.astype(_ELEMENTS[tensor.type]).tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        tensor.buffer = len(self.model.buffers) - 1


def planted(data: bytes, fault: Callable[[Opened], None]) -> bytes:
    """The file with a fault."""
    opened = Opened(schema.ModelT.InitFromPackedBuf(data, 0))
    fault(opened)
    builder = flatbuffers.Builder(len(data))
    builder.Finish(opened.model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


PRODUCTS = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")


def _scaled(opened: Opened, tensor: Any, bias: Any, factor: np.ndarray) -> None:
    """The real weights times a factor for each channel; the real bias stays.   factor: f32[channels]"""
    if tensor.quantization is None or tensor.quantization.scale is None:
        axis = 0 if len(tensor.shape) == 2 or tensor.shape[0] != 1 else len(tensor.shape) - 1
        shape = [-1 if i == axis else 1 for i in range(len(tensor.shape))]
        opened.write(tensor, opened.array(tensor) * (factor if factor.size == 1 else factor.reshape(shape)))
        return
    scale = np.asarray(tensor.quantization.scale, np.float32)
    factor = factor if scale.size == factor.size else factor.max()
    tensor.quantization.scale = (scale * factor).tolist()
    if bias is not None and bias.type in (schema.TensorType.INT32, schema.TensorType.INT64):
        bias.quantization.scale = (np.asarray(bias.quantization.scale, np.float32) * factor).tolist()
        opened.write(bias, np.rint(opened.array(bias) / factor))


def _layer(opened: Opened, builtin: str, number: int) -> tuple[Any, Any]:
    """The weights and the bias of one of the operators of a builtin."""
    operator = opened.operators(builtin)[number]
    bias = opened.weights(operator.inputs[2]) if len(operator.inputs) > 2 and operator.inputs[2] >= 0 else None
    return opened.weights(operator.inputs[1]), bias


def louder(builtin: str, number: int, factor: float = 1.3) -> Callable[[Opened], None]:
    """The weights of one layer times a factor."""

    def plant(opened: Opened) -> None:
        weights, bias = _layer(opened, builtin, number)
        _scaled(opened, weights, bias, np.array([factor], np.float32))

    return plant


def louder_channel(builtin: str, number: int, channel: int = 3) -> Callable[[Opened], None]:
    """The scale of one channel of the weights doubled."""

    def plant(opened: Opened) -> None:
        weights, bias = _layer(opened, builtin, number)
        factor = np.ones(weights.shape[0] if weights.shape[0] != 1 else weights.shape[-1], np.float32)
        factor[channel] = 2
        _scaled(opened, weights, bias, factor)

    return plant


def changed_weights(builtin: str, number: int, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Opened], None]:
    """Other integers for the weights of one layer, in the same scales."""

    def plant(opened: Opened) -> None:
        weights, _ = _layer(opened, builtin, number)
        opened.write(weights, change(opened.array(weights)))

    return plant


def without_bias(builtin: str, number: int) -> Callable[[Opened], None]:
    """Zeros for the bias of one layer."""

    def plant(opened: Opened) -> None:
        _, bias = _layer(opened, builtin, number)
        opened.write(bias, 0 * opened.array(bias))

    return plant


def swapped_classes(first: int = 0, second: int = 1) -> Callable[[Opened], None]:
    """Two rows of the last dense layer, with their scales and biases, in each other's place."""

    def plant(opened: Opened) -> None:
        order: Any = None
        for tensor in _layer(opened, "FULLY_CONNECTED", -1):
            array = opened.array(tensor)
            order = np.arange(len(array))
            order[[first, second]] = second, first
            opened.write(tensor, array[order])
            scale = None if tensor.quantization is None else tensor.quantization.scale
            if scale is not None and len(scale) == len(array):
                tensor.quantization.scale = np.asarray(scale)[order].tolist()

    return plant


def fused_activation(builtin: str, number: int, function: int) -> Callable[[Opened], None]:
    """Another fused activation function for one operator.   function: of schema.ActivationFunctionType"""

    def plant(opened: Opened) -> None:
        opened.operators(builtin)[number].builtinOptions.fusedActivationFunction = function

    return plant


def requantized(builtin: str, number: int, *, scale: float = 1.0, zero_point: int = 0) -> Callable[[Opened], None]:
    """Another scale or zero point for the result of one operator."""

    def plant(opened: Opened) -> None:
        quantization = opened.tensor(opened.operators(builtin)[number].outputs[0]).quantization
        quantization.scale = [quantization.scale[0] * scale]
        quantization.zeroPoint = [int(quantization.zeroPoint[0]) + zero_point]

    return plant


def other_operator(builtin: str, number: int, other: str) -> Callable[[Opened], None]:
    """Another builtin, which takes the same options, in place of one operator."""

    def plant(opened: Opened) -> None:
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, other)
        code.version = 2
        opened.model.operatorCodes.append(code)
        opened.operators(builtin)[number].opcodeIndex = len(opened.model.operatorCodes) - 1

    return plant


def same_operand(builtin: str, number: int) -> Callable[[Opened], None]:
    """The first operand of an operator in place of its second."""

    def plant(opened: Opened) -> None:
        operator = opened.operators(builtin)[number]
        operator.inputs = [operator.inputs[0], operator.inputs[0], *operator.inputs[2:]]

    return plant


def without_assignments(opened: Opened) -> None:
    """Leave out what writes states."""
    left = opened.operators("ASSIGN_VARIABLE")
    opened.graph.operators = [o for o in opened.graph.operators if o not in left]
