"""passes/legalize/complex_loops.py: loops over complex numbers are loops over their parts, and answer right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.control import while_
from tests.end_to_end.invokes import check_invokes

_RANDOM = np.random.default_rng(0)


def _complex(*shape: int) -> Any:
    return tf.constant(_RANDOM.normal(size=shape) + 1j * _RANDOM.normal(size=shape), tf.complex64)


_DECAY = tf.constant(np.exp(-0.3 + 1j * np.arange(1, 5) / 3), tf.complex64)
_IN, _OUT = _complex(3, 4), _complex(4, 2)


def state_space(x: Any) -> Any:
    """s = d * s + x W, with d complex: the real part of a product of each state."""
    rows = tf.transpose(tf.cast(x, tf.complex64) @ _IN, (1, 0, 2))
    states = tf.scan(lambda s, row: _DECAY * s + row, rows, tf.zeros((tf.shape(x)[0], 4), tf.complex64))
    return tf.math.real(tf.transpose(states, (1, 0, 2)) @ _OUT)


def rotated(x: Any) -> Any:
    """A loop that starts from a spectrum, and whose condition reads it."""

    def turn(i: Any, s: Any) -> Any:
        return i + 1, s * tf.constant(0.6 + 0.8j, tf.complex64) + tf.math.conj(s) * 0.5

    state = tf.signal.rfft(x[:, 0], [8])
    _, state = tf.while_loop(lambda i, s: (i < 5) & (tf.reduce_max(tf.abs(s)) < 4.0), turn, (0, state))
    return tf.math.real(state), tf.math.imag(state)


@pytest.mark.parametrize("function", [state_space, rotated], ids=lambda f: f.__name__)
def test_a_complex_state(function: Any) -> None:
    spec = tf.TensorSpec((None, None, 3), tf.float32, name="x")
    result = jfuse.convert(tf.function(function, input_signature=[spec], autograph=False))
    loops = [eqn for s in result.program.signatures for eqn in all_eqns(s.graph) if eqn.op is while_]
    assert loops
    assert all(a is None or a.type.dtype is not DType.c64 for loop in loops for a in loop.inputs)
    check_invokes(result)
