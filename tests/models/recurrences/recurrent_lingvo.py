"""lingvo's LSTM cells written out: their gate order, paddings and asserts; annotated and not, one step and looped.

After lingvo/core/rnn_cell.py, LSTMCellSimple and LayerNormalizedLSTMCellSimple.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.recurrences.recurrent_rows import Draw, Row, masked_steps
from tests.models.recurrences.recurrent_shells import FEATURES, UNITS, Cell, Random, Shell

Step = Callable[..., Any]
SIMPLE, NORMALIZED = "LSTMCellSimple", "LayerNormalizedLstmCellSimple"


@dataclass(frozen=True)
class Lingvo:
    """The parameters of LSTMCellSimple that change its graph; with `norm` those of LayerNormalizedLSTMCellSimple.

    blends: paddings multiply old and new states, as ApplyPadding does without `use_select`.
    """

    units: int = UNITS
    outputs: int = UNITS
    cap: float | None = 10.0
    forget_gate_bias: float = 0.0
    coupled: bool = False
    output_nonlinearity: bool = True
    norm: bool = False
    asserts: bool = True
    blends: bool = False

    @property
    def gates(self) -> int:
        """How many blocks the matrix has."""
        return 3 if self.coupled else 4

    @property
    def projected(self) -> bool:
        """Whether there is a projection."""
        return self.outputs != self.units

    def theta(self, seed: int = 0) -> list[Any]:
        """Variables wm, b, then w_proj and ln_scale where there are such."""
        r = Random(seed)
        found = [r.kernel(FEATURES + self.outputs, self.gates * self.units), r.vector(self.gates * self.units)]
        found += [r.kernel(self.units, self.outputs)] if self.projected else []
        return found + ([r.vector(self.gates * self.units, 1.0)] if self.norm else [])

    def step(self, act: Any, padding: Any, m: Any, c: Any, *theta: Any) -> tuple[Any, Any]:
        """One step.   act: f32[b,i]; padding: f32[b,1], 1 where the states stay; m: f32[b,o]; c: f32[b,h]"""
        wm, b, *rest = theta
        if self.asserts:
            padding = checked(padding)
        z = tf.matmul(tf.concat([act, m], 1), wm)
        new_m, new_c = self._gated(z, b, c, rest)
        if padding is None:
            return new_m, new_c
        if self.blends:
            return m * padding + new_m * (1.0 - padding), c * padding + new_c * (1.0 - padding)
        kept = tf.greater(padding, 0.0)
        return tf.where(kept, m, new_m), tf.where(kept, c, new_c)

    def _gated(self, z: Any, b: Any, c: Any, rest: list[Any]) -> tuple[Any, Any]:
        parts = self._parts(z, b, rest)
        if self.coupled:
            i_i, f_g, o_g = parts
            forget = tf.sigmoid(f_g)
            c = forget * c + (tf.tanh(i_i) - tf.tanh(i_i) * forget)
        else:
            i_i, i_g, f_g, o_g = parts
            c = tf.sigmoid(f_g) * c + tf.sigmoid(i_g) * tf.tanh(i_i)
        c = c if self.cap is None else tf.clip_by_value(c, -self.cap, self.cap)
        m = tf.sigmoid(o_g) * (tf.tanh(c) if self.output_nonlinearity else c)
        return (tf.matmul(m, rest[0]) if self.projected else m), c

    def _parts(self, z: Any, b: Any, rest: list[Any]) -> list[Any]:
        biases = tf.split(b, self.gates)
        if self.forget_gate_bias:
            extra = tf.ones([self.units]) * tf.expand_dims(tf.constant(self.forget_gate_bias), 0)
            biases[-2] = tf.add(biases[-2], tf.reshape(extra, [self.units]))
        if not self.norm:
            return list(tf.split(tf.add(z, tf.concat(biases, 0)), self.gates, axis=1))
        scales = tf.split(rest[-1], self.gates)
        return [
            normalized(part, scale, bias)
            for part, scale, bias in zip(tf.split(z, self.gates, axis=1), scales, biases, strict=True)
        ]


def normalized(z: Any, scale: Any, bias: Any) -> Any:
    """Layer norm of one gate over its units, as lingvo spells it."""
    mean = tf.reduce_mean(z, axis=[1], keepdims=True)
    variance = tf.reduce_mean(tf.square(z - mean), axis=[1], keepdims=True)
    return (z - mean) * tf.math.rsqrt(variance + 1e-8) * tf.expand_dims(scale, 0) + bias


def checked(padding: Any) -> Any:
    """The padding behind an assert that it is 0 or 1: in a graph, an If whose branch holds the Assert."""
    binary = tf.reduce_all(tf.logical_or(tf.equal(padding, 0.0), tf.equal(padding, 1.0)))
    with tf.control_dependencies([tf.debugging.Assert(binary, [padding])]):
        return tf.ensure_shape(tf.identity(padding), padding.shape)


def looped(lingvo: Lingvo, shell: Shell, *, annotated: bool = False) -> Any:
    """The cell in a loop, without padding; marked, every step is a call of the marked function."""
    theta = lingvo.theta()
    call = marked_with_states(lingvo) if annotated else partial(_bare, lingvo)

    def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        m, c = call(x, *theta, *states) if annotated else call(x, *states, *theta)
        return m, (m, c)

    return shell.function(Cell(step, (lingvo.outputs, lingvo.units)))


def _bare(lingvo: Lingvo, x: Any, m: Any, c: Any, *theta: Any) -> tuple[Any, Any]:
    batch = tf.shape(m)[0] if m.shape[0] is None else m.shape[0]
    return lingvo.step(x, tf.zeros([batch, 1]), m, c, *theta)


_WITH_STATES: dict[tuple[bool, bool], Callable[[Step], Callable[..., Any]]] = {
    (False, False): lambda step: lambda act, wm, b, m, c: step(act, m, c, wm, b),
    (True, False): lambda step: lambda act, wm, b, w_proj, m, c: step(act, m, c, wm, b, w_proj),
    (False, True): lambda step: lambda act, wm, b, ln_scale, m, c: step(act, m, c, wm, b, ln_scale),
    (True, True): lambda step: lambda act, wm, b, w_proj, ln_scale, m, c: step(act, m, c, wm, b, w_proj, ln_scale),
}
_BY_CONTRACT: dict[tuple[bool, bool], Callable[[Step], Callable[..., Any]]] = {
    (False, False): lambda step: lambda act, wm, b, projection: step(act, wm, b),
    (True, False): lambda step: lambda act, wm, b, projection: step(act, wm, b, projection),
    (False, True): lambda step: lambda act, wm, b, projection, scale: step(act, wm, b, scale),
    (True, True): lambda step: lambda act, wm, b, projection, scale: step(act, wm, b, projection, scale),
}
"""The arguments of marked functions, by whether there are a projection and a layer norm."""


def marked_with_states(lingvo: Lingvo) -> Any:
    """A marked step: act, wm, b, (w_proj,) (ln_scale,) m, c -> m', c'."""
    cell = _WITH_STATES[lingvo.projected, lingvo.norm](partial(_bare, lingvo))
    return tf.function(cell, experimental_implements=NORMALIZED if lingvo.norm else SIMPLE, autograph=False)


def one_step_with_states(lingvo: Lingvo, batch: int | None = 2) -> Any:
    """A marked step as the whole model: act f32[b,i], m f32[b,o], c f32[b,h] -> {"m", "c"}."""
    theta, cell = lingvo.theta(), marked_with_states(lingvo)
    shapes = {"act": FEATURES, "m": lingvo.outputs, "c": lingvo.units}
    specs = [tf.TensorSpec([batch, n], tf.float32, name=name) for name, n in shapes.items()]

    def run(act: Any, m: Any, c: Any) -> dict[str, Any]:
        m, c = cell(act, *theta, m, c)
        return {"m": m, "c": c}

    return tf.function(run, input_signature=specs, autograph=False)


def by_contract(lingvo: Lingvo) -> Any:
    """The official converter's contract: (act, wm, b, projection, ln_scale) -> m', one row, from states of zero.

    act: f32[1,i]. Without a projection that argument is a scalar, which the contract reads as none.
    """
    wm, b, *rest = lingvo.theta()
    arguments = [wm, b, *rest] if lingvo.projected else [wm, b, tf.Variable(0.0), *rest]

    def step(act: Any, *weights: Any) -> Any:
        m, c = tf.zeros([1, lingvo.outputs]), tf.zeros([1, lingvo.units])
        return _bare(lingvo, act, m, c, *weights)[0]

    cell = _BY_CONTRACT[lingvo.projected, lingvo.norm](step)
    name = NORMALIZED if lingvo.norm else SIMPLE
    marked = tf.function(cell, experimental_implements=name, autograph=False)
    spec = tf.TensorSpec([1, FEATURES], tf.float32, name="act")
    return tf.function(lambda act: {"m": marked(act, *arguments)}, input_signature=[spec], autograph=False)


def padded(lingvo: Lingvo, batch: int | None = 3, steps: int = 6, *, last_c: bool = True) -> Any:
    """The cell in a loop with paddings: x f32[b,t,i], paddings f32[b,t] -> {"y", "m"}, and "c" with `last_c`."""
    theta = lingvo.theta()
    specs = [
        tf.TensorSpec([batch, steps, FEATURES], tf.float32, name="x"),
        tf.TensorSpec([batch, steps], tf.float32, name="paddings"),
    ]

    def run(x: Any, paddings: Any) -> dict[str, Any]:
        def body(t: Any, rows: Any, m: Any, c: Any) -> tuple[Any, ...]:
            m, c = lingvo.step(x[:, t], paddings[:, t, None], m, c, *theta)
            return t + 1, rows.write(t, m), m, c

        rows = tf.TensorArray(tf.float32, steps)
        states = [tf.zeros([tf.shape(x)[0], n]) for n in (lingvo.outputs, lingvo.units)]
        _, rows, m, c = tf.while_loop(lambda t, *_: t < steps, body, (0, rows, *states))
        return {"y": tf.transpose(rows.stack(), [1, 0, 2]), "m": m} | ({"c": c} if last_c else {})

    return tf.function(run, input_signature=specs, autograph=False)


def zero_padded(lingvo: Lingvo, batch: int | None = None, steps: int = 6) -> Any:
    """The cell in a loop over x f32[t,b,i] with paddings that are zeros in every step -> {"y", "m", "c"}."""
    theta = lingvo.theta()

    def run(x: Any) -> dict[str, Any]:
        rows = tf.shape(x)[1] if batch is None else batch
        inputs = tf.TensorArray(tf.float32, steps).unstack(x)
        zeros = tf.TensorArray(tf.float32, steps).unstack(tf.zeros([steps, rows, 1]))

        def body(t: Any, ys: Any, m: Any, c: Any) -> tuple[Any, ...]:
            m, c = lingvo.step(inputs.read(t), zeros.read(t), m, c, *theta)
            return t + 1, ys.write(t, m), m, c

        states = [tf.zeros([rows, n]) for n in (lingvo.outputs, lingvo.units)]
        ys = tf.TensorArray(tf.float32, steps)
        _, ys, m, c = tf.while_loop(lambda t, *_: t < steps, body, (0, ys, *states))
        return {"y": ys.stack(), "m": m, "c": c}

    spec = tf.TensorSpec([steps, batch, FEATURES], tf.float32, name="x")
    return tf.function(run, input_signature=[spec], autograph=False)


def paddings(side: str) -> Draw:
    """Draws "x" and "paddings" for `padded`."""

    def draw(seed: int) -> dict[str, np.ndarray]:
        x = np.random.default_rng(seed).standard_normal((3, 6, FEATURES)).astype(np.float32)
        return {"x": x, "paddings": 1.0 - masked_steps(side, 6, 3, seed).astype(np.float32)}

    return draw


_CELLS = {
    "simple": Lingvo(),
    "cap": Lingvo(cap=0.4),
    "no_cap": Lingvo(cap=None, forget_gate_bias=1.0),
    "projection": Lingvo(outputs=3, cap=0.5),
    "coupled": Lingvo(coupled=True),
    "norm": Lingvo(norm=True),
    "norm-projection": Lingvo(norm=True, outputs=3, forget_gate_bias=1.0),
}


def _source(make: Callable[[], Any]) -> Callable[[Path], Any]:
    return lambda folder: make()


_ONE = {"lstm": 1}
ROWS: tuple[Row, ...] = (
    *(Row(f"lingvo-{n}", "lingvo", _source(partial(looped, cell, Shell(batch=2))), _ONE) for n, cell in _CELLS.items()),
    Row("lingvo-open_batch", "lingvo", _source(partial(looped, Lingvo(cap=0.4), Shell())), _ONE),
    Row("lingvo-scan", "lingvo", _source(partial(looped, Lingvo(), Shell("scan"))), _ONE),
    Row("lingvo-unrolled", "lingvo", _source(partial(looped, Lingvo(cap=0.5), Shell("unrolled", batch=2))), _ONE),
    Row(
        "lingvo-no_output_nonlinearity",
        "lingvo_loop",
        _source(partial(looped, Lingvo(output_nonlinearity=False), Shell())),
        loops=None,
    ),
    Row("lingvo-padded", "lingvo_padded", _source(partial(padded, Lingvo())), loops=None, draw=paddings("any")),
    Row(
        "lingvo-padded-right",
        "lingvo_padded",
        _source(partial(padded, Lingvo())),
        _ONE,
        options={"padding": "right"},
        draw=paddings("right"),
    ),
    *(
        Row(
            f"lingvo-annotated-{n}",
            "lingvo_annotated",
            _source(partial(looped, cell, Shell(batch=2), annotated=True)),
            _ONE,
        )
        for n, cell in _CELLS.items()
    ),
    *(
        Row(f"lingvo-step-{n}", "lingvo_step", _source(partial(one_step_with_states, cell)), _ONE)
        for n, cell in _CELLS.items()
        if n in ("simple", "cap", "projection", "norm-projection")
    ),
    Row("lingvo-step-open_batch", "lingvo_step", _source(partial(one_step_with_states, Lingvo(), None)), _ONE),
    *(
        # The states are zero, so neither the forget gate nor what follows the input in the matrix is read.
        Row(f"lingvo-contract-{n}", "lingvo_contract", _source(partial(by_contract, cell)), _ONE)
        for n, cell in _CELLS.items()
        if n in ("simple", "projection", "norm")
    ),
)
