"""The two Kerases behind one name, and weights that matter."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tf_keras

LIBRARIES: dict[str, Any] = {"keras": keras, "tf_keras": tf_keras}


def awake(model: Any, seed: int = 0) -> Any:
    """The model with every weight random, biases as well, so that leaving one out shows; variances are positive."""
    rng = np.random.default_rng(seed)
    names = [w.name for w in model.weights]
    model.set_weights([_weight(rng, n, w) for n, w in zip(names, model.get_weights(), strict=True)])
    return model


def _weight(rng: np.random.Generator, name: str, weight: np.ndarray) -> np.ndarray:
    if weight.dtype.kind != "f":  # the seeds of dropout
        return weight
    scale = 0.5 if weight.ndim <= 1 else 1.0 / np.sqrt(weight.shape[0])
    drawn = (rng.standard_normal(weight.shape) * scale).astype(weight.dtype)
    return np.asarray(np.abs(drawn) + 0.5 if "variance" in name else drawn)
