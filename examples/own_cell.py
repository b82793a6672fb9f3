"""A cell of one's own: an LSTM with peepholes, annotated in TensorFlow and fused by a rule in Python."""

import numpy as np
import tensorflow as tf

import jfuse

T, F, U = 12, 8, 16  # steps, features, units


@tf.function(experimental_implements="acme.PeepholeLstm")
def peephole_lstm(x, h, c, kernel, recurrent, bias, peepholes):
    steps = []
    for t in range(T):
        i, f, g, o = tf.split(x[:, t] @ kernel + h @ recurrent + bias, 4, axis=1)
        i, f = tf.sigmoid(i + peepholes[0] * c), tf.sigmoid(f + peepholes[1] * c)
        c = f * c + i * tf.tanh(g)
        h = tf.sigmoid(o + peepholes[2] * c) * tf.tanh(c)
        steps.append(h)
    return tf.stack(steps, axis=1)


@jfuse.fuses("acme.PeepholeLstm")
def fuse_peephole_lstm(x, h, c, kernel, recurrent, bias, peepholes):
    jfuse.need(jfuse.is_constant(kernel), "constant_weights", want="weights known at conversion")
    weights = [*np.split(kernel.T, 4), *np.split(recurrent.T, 4), *peepholes, *np.split(bias, 4)]
    return jfuse.ops.unidirectional_sequence_lstm(x, *weights, None, None, h, c)[0]


@tf.function(input_signature=[tf.TensorSpec((None, T, F), name="x")])
def model(x):
    h = c = tf.zeros((tf.shape(x)[0], U))
    shapes = [(F, 4 * U), (U, 4 * U), (4 * U,), (3, U)]
    return peephole_lstm(x, h, c, *(0.3 * np.random.default_rng(0).standard_normal(s, np.float32) for s in shapes))


result = jfuse.convert(model)
result.save("own_cell.tflite")
print(result.report.operators)
