"""jfuse beside the other routes from JAX and PyTorch to TFLite: conversion time, operators, size, latency.

    python -m bench.sources [--json bench/results/sources.json] [--idle]

The other route of a jax function is TensorFlow's converter (`TFLiteConverter.experimental_from_jax`), that of a module
litert-torch, where it is installed; rows of what is not installed are left out. Each conversion is made once, without
verification, after a small one that imports everything. Latency is of a call of batch 1 in LiteRT on one thread, the
files in turns. Operators and sizes do not depend on what else the machine does; times do, so that they are
written with --idle only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jfuse
from jfuse.errors import JfuseError
from jfuse.lowered_model import operator_counts
from jfuse.running.interpreter import LiteRt
from jfuse.running.named_file import with_signature
from jfuse.tflite.read.file import load_tflite
from jfuse.tuning.timing import in_turns, litert_turn

SECONDS = 1.0  # of calls of each file
STEPS, FEATURES, UNITS = 50, 16, 32
RNG = np.random.default_rng(0)


def _weights(*shape: int) -> np.ndarray:
    return (RNG.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


W, U, V = _weights(FEATURES, 4 * UNITS), _weights(UNITS, 4 * UNITS), _weights(FEATURES, UNITS)
FILTERS = [_weights(3, 3, 3, 8), _weights(3, 3, 8, 16)]


def lstm(x: Any) -> Any:
    """f32[1,t,f] -> f32[1,t,u], by scan"""

    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(row @ W + h @ U, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[0], UNITS))
    return jnp.swapaxes(jax.lax.scan(step, (zero, zero), jnp.swapaxes(x, 0, 1))[1], 0, 1)


def convolutions(x: Any) -> Any:
    """f32[1,32,32,3] -> f32[1,16]"""
    for filters in FILTERS:
        x = jax.nn.relu(
            jax.lax.conv_general_dilated(x, filters, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        )
    return x.mean((1, 2))


def attention(x: Any) -> Any:
    """f32[1,t,f] -> f32[1,t,u]"""
    q, k, v = x @ V, x @ V, x @ V
    return jax.nn.softmax(q @ jnp.swapaxes(k, 1, 2) / np.sqrt(UNITS)) @ v


def perceptron(x: Any) -> Any:
    """f32[1,t,f] -> f32[1,t,u]"""
    return jax.nn.gelu(x @ V) @ (V.T @ V)


SEQUENCE, IMAGE = (1, STEPS, FEATURES), (1, 32, 32, 3)
FUNCTIONS = {
    "lstm": (lstm, SEQUENCE),
    "convolutions": (convolutions, IMAGE),
    "attention": (attention, SEQUENCE),
    "perceptron": (perceptron, SEQUENCE),
}


def by_tensorflow(function: Callable[..., Any], shape: tuple[int, ...]) -> bytes:
    """The file of TensorFlow's converter."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.experimental_from_jax([function], [[("x", jnp.zeros(shape))]])
    data: bytes = converter.convert()
    return data


def modules() -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Modules of PyTorch, by name."""
    import torch

    torch.manual_seed(0)

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.LSTM(FEATURES, UNITS, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0]

    conv = torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, 2, 1), torch.nn.ReLU()),
        *(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()),
    )
    dense = torch.nn.Sequential(torch.nn.Linear(FEATURES, UNITS), torch.nn.GELU(), torch.nn.Linear(UNITS, UNITS))
    encoder = torch.nn.TransformerEncoderLayer(FEATURES, 2, UNITS, batch_first=True)
    shapes = {"lstm": SEQUENCE, "convolutions": (1, 3, 32, 32), "encoder": SEQUENCE, "perceptron": SEQUENCE}
    made = {"lstm": Layer(), "convolutions": conv, "encoder": encoder, "perceptron": dense}
    return {name: (module.eval(), shapes[name]) for name, module in made.items()}


def by_litert_torch(module: Any, shape: tuple[int, ...]) -> bytes:
    """The file of litert-torch."""
    import litert_torch
    import torch

    made = litert_torch.convert(module, (torch.zeros(shape),))
    data: bytes = made.model_content() if callable(getattr(made, "model_content", None)) else made._model_content
    return data


def by_jfuse(source: Any, shape: tuple[int, ...]) -> bytes:
    """Our file."""
    return jfuse.convert(source, [jax.ShapeDtypeStruct(shape, jnp.float32)], verify=False).to_bytes()


Route = Callable[[Any, tuple[int, ...]], bytes]


def measured(source: Any, shape: tuple[int, ...], theirs: Route) -> dict[str, Any]:
    """One row: seconds of conversion, operators, bytes and microseconds of a call, ours and theirs."""
    row: dict[str, Any] = {}
    files: dict[str, bytes] = {}
    for name, route in (("jfuse", by_jfuse), ("other", theirs)):
        started = time.perf_counter()
        try:
            data = route(source, shape)
        except Exception as error:  # of a converter that is not ours: that it fails is the result
            if name == "jfuse":
                raise
            row[f"{name}_refuses"] = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
            continue
        row[f"{name}_seconds"] = round(time.perf_counter() - started, 3)
        row[f"{name}_bytes"] = len(data)
        files[name], row[f"{name}_operators"] = _read(data)
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    turns = {}
    for name, data in files.items():
        ((key, (names, _)),) = LiteRt(data).signatures().items()
        turns[name] = litert_turn(data, [(key, {names[0]: x})])
    for name, calls in in_turns(turns, SECONDS).items():
        row[f"{name}_us"] = round(1e6 * statistics.median(s for turn in calls for s in turn), 1)
    return row


def _read(data: bytes) -> tuple[bytes, int]:
    """A file, with a signature where it has none, and how many operators it has."""
    program = load_tflite(data)
    return with_signature(data, program), sum(operator_counts(program.graphs()).values())


def rows() -> Iterator[dict[str, Any]]:
    """All rows that can be measured here."""
    if find_spec("tensorflow") is not None:
        by_tensorflow(lambda x: x + 1, (1,))
        by_jfuse(lambda x: x + 1, (1,))
        for name, (function, shape) in FUNCTIONS.items():
            yield {"source": "JAX", "model": name, **measured(function, shape, by_tensorflow)}
    if find_spec("torch") is not None and find_spec("litert_torch") is not None:
        import torch

        by_litert_torch(torch.nn.Tanh().eval(), (1,))
        by_jfuse(torch.nn.Tanh().eval(), (1,))
        for name, (module, shape) in modules().items():
            yield {"source": "PyTorch", "model": name, **measured(module, shape, by_litert_torch)}


def main() -> None:
    """Print a line for each row; with --json write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--idle", action="store_true", help="the machine does nothing else: write times as well")
    chosen = parser.parse_args()
    found = []
    for row in rows():
        print(json.dumps(row), flush=True)
        found.append(row)
    if not found:
        raise JfuseError("neither TensorFlow nor litert-torch is installed", expected="one of them, to compare with")
    if chosen.json:
        kept = [{k: v for k, v in row.items() if chosen.idle or not k.endswith(("_seconds", "_us"))} for row in found]
        chosen.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
