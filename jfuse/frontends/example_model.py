"""The model of `jfuse demo`."""

from __future__ import annotations

from pathlib import Path


def export_example(path: Path) -> str:
    """Save a seeded LSTM classifier with model.export: 50 steps of 16 features, 32 units, 4 classes.

    Returns Keras's version.
    """
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((50, 16), name="sequence"),
            keras.layers.LSTM(32, bias_initializer="random_normal"),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )
    model.export(path, verbose=False)
    return str(keras.__version__)
