"""A cell of one's own: an LSTM with peepholes, annotated in TensorFlow and fused by a rule in Python."""

import sys

import numpy as np
import tensorflow as tf

import jfuse

STEPS, FEATURES, UNITS = 12, 8, 16


@tf.function(experimental_implements="acme.PeepholeLstm")
def peephole_lstm(x, h, c, kernel, recurrent, bias, peepholes):
    steps = []
    for t in range(STEPS):
        i, f, g, o = tf.split(x[:, t] @ kernel + h @ recurrent + bias, 4, axis=1)
        i, f = tf.sigmoid(i + peepholes[0] * c), tf.sigmoid(f + peepholes[1] * c)
        c = f * c + i * tf.tanh(g)
        h = tf.sigmoid(o + peepholes[2] * c) * tf.tanh(c)
        steps.append(h)
    return tf.stack(steps, axis=1)


@jfuse.fuses("acme.PeepholeLstm")
def fuse_peephole_lstm(x, h, c, kernel, recurrent, bias, peepholes):
    jfuse.need(isinstance(kernel, np.ndarray), "constant_weights", want="weights known at conversion")
    weights = [*np.split(kernel.T, 4), *np.split(recurrent.T, 4), *peepholes, *np.split(bias, 4)]
    sequence, _, _ = jfuse.ops.unidirectional_sequence_lstm(x, *weights, None, None, h, c)
    return sequence


def convert(path):
    shapes = [(FEATURES, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,), (3, UNITS)]
    weights = [tf.random.stateless_normal(shape, seed=(0, i)) * 0.3 for i, shape in enumerate(shapes)]

    @tf.function(input_signature=[tf.TensorSpec((None, STEPS, FEATURES), name="x")])
    def model(x):
        zeros = tf.zeros((tf.shape(x)[0], UNITS))
        return peephole_lstm(x, zeros, zeros, *weights)

    result = jfuse.convert(model)
    result.save(path)
    return result


if __name__ == "__main__":
    report = convert(sys.argv[1] if len(sys.argv) > 1 else "own_cell.tflite").report
    print(report.operators, report.fused, report.refused, sep="\n")
