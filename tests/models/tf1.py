"""Graphs as TensorFlow 1 wrote them: Switch, Merge and frames, TensorArrays with flows, and its recurrent layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


@contextmanager
def control_flow_v1() -> Iterator[None]:
    """Graphs that are built within the `with` get frames, Switch and PeepholeRule nodes."""
    enabled = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r".*rnn_cell\.\w+` is deprecated", UserWarning)
            yield
    finally:
        if enabled:
            v1.enable_control_flow_v2()


@dataclass
class Graph:
    """A GraphDef with the names of its inputs and outputs, and the answers of a session."""

    graph_def: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def names(self) -> dict[str, Any]:
        """The keywords for `jfuse.load`."""
        return {"input_tensors": self.inputs, "output_tensors": self.outputs}

    def ops(self) -> set[str]:
        """The ops of all nodes."""
        return {node.op for node in self.graph_def.node}

    def run(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """What a session answers."""
        with tf.Graph().as_default(), v1.Session() as session:
            tf.import_graph_def(self.graph_def, name="")
            fed = {f"{name}:0": array for name, array in zip(self.inputs, arrays, strict=True)}
            return [np.asarray(a) for a in session.run([f"{name}:0" for name in self.outputs], fed)]


def frozen(build: Callable[..., Any], *specs: Any) -> Graph:
    """The graph of a function of placeholders of these specs, its variables drawn and made constants."""
    with control_flow_v1(), tf.Graph().as_default() as graph, v1.Session() as session:
        placeholders = [v1.placeholder(s.dtype, s.shape, name=f"x{i}") for i, s in enumerate(specs)]
        results = [tf.identity(t, name=f"y{i}") for i, t in enumerate(tf.nest.flatten(build(*placeholders)))]
        draw_variables(session)
        outputs = [t.op.name for t in results]
        constant = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), outputs)
    return Graph(constant, tuple(t.op.name for t in placeholders), tuple(outputs))


def draw_variables(session: Any) -> None:
    """Give every variable of the default graph values that matter: biases, too."""
    session.run(v1.global_variables_initializer())
    rng = np.random.default_rng(0)
    for variable in v1.global_variables():
        session.run(variable.assign(rng.normal(0.0, 0.5, variable.shape).astype(variable.dtype.as_numpy_dtype)))


@dataclass(frozen=True)
class Recurrent:
    """A model around one of TensorFlow 1's functions for recurrent networks, of x f32[batch, steps, 3].

    build: x, and `lengths` i32[batch] where there are any, to the results.
    operators: how many recurrent operators the file has. v2: built with While nodes, as from TensorFlow 1.15 on.
    """

    build: Callable[..., Any]
    operators: Mapping[str, int] = field(default_factory=dict)
    batch: int | None = 2
    steps: int | None = 6
    lengths: bool = False
    v2: bool = False

    def save(self, folder: Path) -> Path:
        """A SavedModel of TensorFlow 1."""
        with control_flow_v1(), tf.Graph().as_default(), v1.Session() as session:
            if self.v2:
                v1.enable_control_flow_v2()
            inputs = {"x": v1.placeholder(tf.float32, [self.batch, self.steps, 3], name="x")}
            if self.lengths:
                inputs["lengths"] = v1.placeholder(tf.int32, [self.batch], name="lengths")
            results = tf.nest.flatten(self.build(*inputs.values()))
            outputs = {f"y{i}": tf.identity(t) for i, t in enumerate(results)}
            draw_variables(session)
            v1.saved_model.simple_save(session, str(folder), inputs, outputs)
        return folder

    def draw(self, seed: int) -> dict[str, np.ndarray]:
        """Inputs; batch and steps vary with the seed where they are open, lengths are never all the same."""
        rng = np.random.default_rng(seed)
        batch, steps = self.batch or 2 + seed % 3, self.steps or 4 + seed
        found = {"x": rng.standard_normal((batch, steps, 3)).astype(np.float32)}
        if self.lengths:
            found["lengths"] = rng.permutation(np.linspace(1, steps - seed % 2, batch)).astype(np.int32)
        return found


def cells() -> Any:
    """tf.compat.v1.nn.rnn_cell, which TensorFlow itself can only reach where Keras is tf_keras."""
    import tf_keras.api._v1.keras as legacy

    return legacy.__internal__.legacy.rnn_cell


def _lstm(units: int = 4, **options: Any) -> Any:
    return cells().LSTMCell(units, **options)


def dynamic(cell: Callable[[], Any], **options: Any) -> Callable[..., Any]:
    """`dynamic_rnn` over a cell."""

    def build(x: Any, lengths: Any = None) -> Any:
        return v1.nn.dynamic_rnn(cell(), x, sequence_length=lengths, dtype=tf.float32, **options)

    return build


def both_ways(x: Any, lengths: Any = None) -> Any:
    """`bidirectional_dynamic_rnn`."""
    return v1.nn.bidirectional_dynamic_rnn(_lstm(), _lstm(), x, sequence_length=lengths, dtype=tf.float32)


def _static(x: Any, lengths: Any = None) -> Any:
    return v1.nn.static_rnn(_lstm(), tf.unstack(x, axis=1), sequence_length=lengths, dtype=tf.float32)


def _initial(x: Any) -> Any:
    return v1.nn.dynamic_rnn(_lstm(3), x, initial_state=cells().LSTMStateTuple(x[:, 0], x[:, 1]))


_ONE = {"unidirectional_sequence_lstm": 1}
_TWO = {"unidirectional_sequence_lstm": 2}

# Plain cells in dynamic_rnn, static_rnn and both ways are rows of tests/models/recurrences/recurrent_tf1.
RECURRENT: dict[str, Recurrent] = {
    "lstm": Recurrent(dynamic(_lstm), _ONE),
    "lstm_v2": Recurrent(dynamic(_lstm), _ONE, v2=True),
    "peepholes": Recurrent(dynamic(lambda: _lstm(use_peepholes=True)), _ONE),
    "projection": Recurrent(dynamic(lambda: _lstm(6, num_proj=4)), _ONE),
    "cell_clip": Recurrent(dynamic(lambda: _lstm(cell_clip=0.5)), _ONE),
    "projection_clip": Recurrent(dynamic(lambda: _lstm(6, num_proj=4, proj_clip=0.3)), _ONE),
    "basic_lstm_relu": Recurrent(
        dynamic(lambda: cells().BasicLSTMCell(4, forget_bias=0.0, activation=tf.nn.relu)), _ONE
    ),
    "gru": Recurrent(dynamic(lambda: cells().GRUCell(4))),
    "multi_residual": Recurrent(
        dynamic(lambda: cells().MultiRNNCell([_lstm(), cells().ResidualWrapper(cells().GRUCell(4))])), _ONE
    ),
    "residual": Recurrent(dynamic(lambda: cells().ResidualWrapper(_lstm(3))), _ONE),
    "dropout_of_nothing": Recurrent(
        dynamic(lambda: cells().DropoutWrapper(_lstm(), input_keep_prob=1.0, output_keep_prob=1.0)), _ONE
    ),
    "initial_state": Recurrent(_initial, _ONE),
    "swap_memory": Recurrent(dynamic(_lstm, swap_memory=True), _ONE),
    "open_steps": Recurrent(dynamic(_lstm), _ONE, steps=None),
    "open_sizes": Recurrent(dynamic(_lstm), _ONE, batch=None, steps=None),
    "lengths": Recurrent(dynamic(_lstm), _ONE, lengths=True),
    "lengths_v2": Recurrent(dynamic(_lstm), _ONE, lengths=True, v2=True),
    "lengths_open_batch": Recurrent(dynamic(_lstm), _ONE, batch=None, lengths=True),
    "lengths_open_sizes": Recurrent(dynamic(_lstm), _ONE, batch=None, steps=None, lengths=True),
    "both_ways_lengths": Recurrent(both_ways, lengths=True),
    "static_lengths": Recurrent(_static, lengths=True),
}
