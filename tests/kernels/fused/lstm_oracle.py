"""What the LSTM kernel is measured against: the written equations, and LiteRT on a file made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ai_edge_litert.schema_py_generated as schema
import flatbuffers
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

RESOLVERS = {"delegates": OpResolverType.AUTO, "builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
GATES = ("input", "forget", "cell", "output")
ACTIVATIONS = {"RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3, "TANH": 4, "SIGN_BIT": 5}


@dataclass(frozen=True)
class LSTM:
    """One LSTM: sizes, which options it has, and random weights for them."""

    batch: int = 3
    steps: int = 4
    inputs: int = 5
    units: int = 6
    width: int | None = None  # of the projection
    projection_bias: bool = False
    coupled: bool = False
    peephole: bool = False
    norm: bool = False
    diagonal: bool = False
    time_major: bool = False
    cell_clip: float = 0.0
    proj_clip: float = 0.0
    activation: str = "TANH"
    seed: int = 0
    operands: dict[str, np.ndarray] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "operands", self._draw())

    @property
    def outputs(self) -> int:
        return self.width or self.units

    @property
    def options(self) -> dict[str, Any]:
        """The op's options, as the kernel takes them."""
        return {
            "fused_activation_function": self.activation,
            "cell_clip": self.cell_clip,
            "proj_clip": self.proj_clip,
            "time_major": self.time_major,
            "diagonal_recurrent_tensors": self.diagonal,
        }

    def _draw(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)

        def draw(*shape: int) -> np.ndarray:
            # Of a size at which gates are awake, and rounding errors do not grow from step to step.
            return rng.normal(0, 1.5 / np.sqrt(shape[-1]) if len(shape) == 2 else 0.7, shape).astype(np.float32)

        found = {}
        for gate in GATES[1:] if self.coupled else GATES:
            found[f"W_{gate}"] = draw(self.units, self.inputs)
            found[f"R_{gate}"] = draw(self.units) if self.diagonal else draw(self.units, self.outputs)
            found[f"b_{gate}"] = draw(self.units)
            if self.peephole and gate != "cell":
                found[f"p_{gate}"] = draw(self.units)
            if self.norm:
                found[f"l_{gate}"] = draw(self.units)
        if self.width:
            found["P"] = draw(self.width, self.units)
        if self.projection_bias:
            found["P_bias"] = draw(self.outputs)
        return found

    def inputs_and_state(self, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        shape = (self.steps, self.batch) if self.time_major else (self.batch, self.steps)
        x = rng.normal(size=(*shape, self.inputs))
        h, c = rng.normal(0, 0.5, (self.batch, self.outputs)), rng.normal(0, 0.5, (self.batch, self.units))
        return x.astype(np.float32), h.astype(np.float32), c.astype(np.float32)

    def in_file_order(self, x: Any, h: Any, c: Any) -> list[Any]:
        """The 24 operands."""
        get = self.operands.get
        weights = [get(f"W_{g}") for g in GATES] + [get(f"R_{g}") for g in GATES]
        peepholes = [get(f"p_{g}") for g in ("input", "forget", "output")]
        biases, norms = [get(f"b_{g}") for g in GATES], [get(f"l_{g}") for g in GATES]
        return [x, *weights, *peepholes, *biases, get("P"), get("P_bias"), h, c, *norms]


def sigmoid(z: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-z)))


def activate(z: np.ndarray, name: str) -> np.ndarray:
    written: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "TANH": np.tanh,
        "RELU": lambda v: np.maximum(v, 0),
        "RELU6": lambda v: np.minimum(np.maximum(v, 0), 6),
        "RELU_N1_TO_1": lambda v: np.minimum(np.maximum(v, -1), 1),
        "SIGN_BIT": lambda v: np.where(np.signbit(v), 1.0, 0.0).astype(v.dtype),
    }
    return np.asarray(written[name](z))


def clip(z: np.ndarray, limit: float) -> np.ndarray:
    return np.asarray(np.minimum(np.maximum(z, -limit), limit)) if limit > 0 else z


def written_step(
    lstm: LSTM, x: np.ndarray, h: np.ndarray, c: np.ndarray, w: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """One step as the reference writes it, gate by gate."""

    def pre(gate: str, state: np.ndarray) -> np.ndarray:
        z = x @ w[f"W_{gate}"].T
        z = z + (h * w[f"R_{gate}"] if lstm.diagonal else h @ w[f"R_{gate}"].T)
        if f"p_{gate}" in w:
            z = z + state * w[f"p_{gate}"]
        if lstm.norm:
            z = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-8) * w[f"l_{gate}"]
        return np.asarray(z + w[f"b_{gate}"])

    f = sigmoid(pre("forget", c))
    i = 1 - f if lstm.coupled else sigmoid(pre("input", c))
    g = activate(pre("cell", c), lstm.activation)
    c = clip(f * c + i * g, lstm.cell_clip)
    m = sigmoid(pre("output", c)) * activate(c, lstm.activation)
    if not lstm.width:
        return m, c
    h = m @ w["P"].T + (w["P_bias"] if lstm.projection_bias else 0)
    return clip(h, lstm.proj_clip), c


def written(lstm: LSTM, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(y, h', c') by the equations, in the dtype of x."""
    w = {name: array.astype(x.dtype) for name, array in lstm.operands.items()}
    outputs = []
    for x_t in x if lstm.time_major else np.swapaxes(x, 0, 1):
        h, c = written_step(lstm, x_t, h, c, w)
        outputs.append(h)
    return np.stack(outputs, 0 if lstm.time_major else 1), h, c


def file_of(lstm: LSTM) -> bytes:
    """A .tflite with that one op: input 0 is x; the state tensors are variables, so they live on between invokes."""
    x, h, c = lstm.inputs_and_state()
    graph, model = schema.SubGraphT(), schema.ModelT()
    graph.tensors, model.buffers = [], [schema.BufferT()]
    operands = [_tensor(model, graph, lstm, o, n) for n, o in enumerate(lstm.in_file_order(x, h, c))]
    y_shape = (*x.shape[:2], lstm.outputs)
    y = _tensor(model, graph, lstm, np.empty(y_shape, np.float32), 0)
    op, options = schema.OperatorT(), schema.UnidirectionalSequenceLSTMOptionsT()
    options.fusedActivationFunction = ACTIVATIONS[lstm.activation]
    options.cellClip, options.projClip = lstm.cell_clip, lstm.proj_clip
    options.timeMajor, options.diagonalRecurrentTensors = lstm.time_major, lstm.diagonal
    op.opcodeIndex, op.inputs, op.outputs = 0, operands, [y]
    op.builtinOptionsType, op.builtinOptions = schema.BuiltinOptions.UnidirectionalSequenceLSTMOptions, options
    graph.inputs, graph.outputs, graph.operators = [operands[0]], [y], [op]
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM
    code.version = 4 if lstm.diagonal else 1
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _tensor(model: Any, graph: Any, lstm: LSTM, array: np.ndarray | None, operand: int) -> int:
    if array is None:
        return -1
    tensor = schema.TensorT()
    tensor.name, tensor.type = f"t{len(graph.tensors)}", schema.TensorType.FLOAT32
    tensor.shape, tensor.buffer = list(array.shape), 0
    tensor.isVariable = operand in (18, 19)
    if operand not in (0, 18, 19):
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(array.tobytes(), np.uint8)
        tensor.buffer = len(model.buffers)
        model.buffers.append(buffer)
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1


def invoke(content: bytes, inputs: Sequence[np.ndarray], resolver: str) -> list[np.ndarray]:
    """The output for each input in turn, of one interpreter."""
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=RESOLVERS[resolver])
    interpreter.allocate_tensors()
    found = []
    for x in inputs:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).copy())
    return found
