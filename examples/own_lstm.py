"""An interface of one's own: an LSTM layer with peepholes and projection, its states in and out, fused by a rule."""

import numpy as np
import tensorflow as tf

import jfuse

T, F, U, P = 12, 8, 16, 6  # steps, features, units of the cell, values that are given out


@tf.function(experimental_implements="acme.ProjectedLstm")
def projected_lstm(frames, state, cell, theta, peep, out):
    """frames f32[b,t,f]; state f32[b,p]; cell f32[b,u]; theta f32[f+p+1,4u], its last row the bias; out f32[u,p]."""
    ones, ys = tf.ones_like(frames[:, 0, :1]), tf.TensorArray(tf.float32, T)
    for t in tf.range(T):
        z = tf.concat([frames[:, t], state, ones], 1) @ theta
        f, i, o, g = tf.split(z, 4, axis=1)
        cell = tf.sigmoid(f + peep[0] * cell) * cell + tf.sigmoid(i + peep[1] * cell) * tf.tanh(g)
        state = (tf.sigmoid(o + peep[2] * cell) * tf.tanh(cell)) @ out
        ys = ys.write(t, state)
    return tf.transpose(ys.stack(), [1, 0, 2]), state, cell


@jfuse.fuses("acme.ProjectedLstm")
def fuse_projected_lstm(frames, state, cell, theta, peep, out):
    for name, array in {"theta": theta, "peep": peep, "out": out}.items():
        jfuse.need(jfuse.is_constant(array), "constant_weights", want=f"{name} known at conversion")
    order = (1, 0, 3, 2)  # TFLite's gates are input, forget, cell, output; these are forget, input, output, cell
    kernel, recurrent, bias = np.split(theta, [frames.shape[2], theta.shape[0] - 1])
    f, i, o = peep
    ys, last, cell = jfuse.ops.unidirectional_sequence_lstm(
        frames,
        *(np.split(kernel.T, 4)[k] for k in order),
        *(np.split(recurrent.T, 4)[k] for k in order),
        *(i, f, o),
        *(np.split(bias[0], 4)[k] for k in order),
        *(out.T, None),  # the projection has no bias
        *(state, cell),
    )
    return ys, last, cell


@tf.function(input_signature=[tf.TensorSpec((None, T, F), name="x"), tf.TensorSpec((None, U), name="c")])
def model(x, c):
    rng = np.random.default_rng(0)
    weights = (0.3 * rng.standard_normal(s, np.float32) for s in ((F + P + 1, 4 * U), (3, U), (U, P)))
    ys, _, cell = projected_lstm(x, tf.zeros((tf.shape(x)[0], P)), c, *weights)
    return {"y": ys, "c": cell}


result = jfuse.convert(model)
result.save("own_lstm.tflite")
print(result.report.fused[0].cell)
