"""A keyword spotter for a microcontroller: the model, its file for tflite-micro, and the file as C++ source.

    pip install 'jfuse[micro]' && python examples/micro/model.py

writes keywords.tflite, keywords.cc, keywords.h and keywords_ops.h into the current folder.
"""

import keras

import jfuse

keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.Input(batch_shape=(1, 49, 10, 1)),  # one second of sound: 49 frames of 10 coefficients
        keras.layers.Conv2D(8, (5, 4), strides=2, activation="relu"),
        keras.layers.Reshape((23, 32)),
        keras.layers.LSTM(16),
        keras.layers.Dense(4, activation="softmax"),
    ]
)

# Compared with Keras on XLA, in LiteRT and in tflite-micro, several calls in a row.
result = jfuse.convert(model, target="tflite-micro")
result.save("keywords.tflite")
result.save_c_array("keywords.cc")
for line in jfuse.check(result, "tflite-micro").lines():
    print(line)
