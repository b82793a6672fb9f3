"""jfuse beside the other routes from JAX and PyTorch to TFLite: conversion time, operators, size, latency.

    python -m bench.sources [--json bench/results/sources.json] [--idle]

The other routes of a jax function are TensorFlow's converter (`TFLiteConverter.experimental_from_jax`) and
litert-converter, which reads StableHLO; that of a module is litert-torch. Rows of what is not installed are left out,
and a file that --json names keeps those that it has of them. Each conversion is made once, without verification, after
a small one that imports everything. Latency is of a call of batch 1 in LiteRT on one thread, the files in turns, and of
what `prefer="speed"` gives as well where that is another file. Operators and sizes do not depend on what else the
machine does; times do, so that they are written with --idle only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jfuse
from jfuse.api.lower import operator_counts
from jfuse.base.errors import JfuseError
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.named_file import with_signature
from jfuse.verification.file_times import in_turns, litert_turn

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


def by_litert_converter(function: Callable[..., Any], shape: tuple[int, ...]) -> bytes:
    """The file of litert-converter, by the steps that litert-torch takes."""
    from litert_converter.mlir import ir, passmanager
    from litert_converter.mlir._mlir_libs import converter_api_ext as converter

    exported = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct(shape, jnp.float32))
    context = ir.Context()
    converter.prepare_mlir_context(context)
    with context:
        module = ir.Module.parse(exported.mlir_module())
        names = {"input_names": ["x"], "output_names": ["output"]}
        converter.set_signature(module.operation, signature_name="serving_default", **names)
        converter.run_convert_to_tfl_passes(module, passmanager.PassManager(), converter.ConvertToTFLConfig())
        data: bytes = converter.export_flatbuffer_to_bytes(module.operation)
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


def by_jfuse(source: Any, shape: tuple[int, ...], prefer: str = "fused") -> bytes:
    """Our file."""
    specs = [jax.ShapeDtypeStruct(shape, jnp.float32)]
    return jfuse.convert(source, specs, verify=False, forms=jfuse.Forms(prefer=prefer)).to_bytes()


Route = Callable[[Any, tuple[int, ...]], bytes]


def measured(source: Any, shape: tuple[int, ...], theirs: Route) -> dict[str, Any]:
    """One row: seconds of conversion, operators, bytes and microseconds of a call, ours and theirs."""
    row: dict[str, Any] = {}
    files: dict[str, bytes] = {}
    routes = {"jfuse": by_jfuse, "jfuse_speed": partial(by_jfuse, prefer="speed"), "other": theirs}
    for name, route in routes.items():
        started = time.perf_counter()
        try:
            data = route(source, shape)
        except Exception as error:  # of a converter that is not ours: that it fails is the result
            if name != "other":
                raise
            row[f"{name}_refuses"] = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
            continue
        if name == "jfuse_speed" and len(data) == row["jfuse_bytes"]:
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
    jax_routes = {
        "TensorFlow": ("tensorflow", by_tensorflow),
        "litert-converter": ("litert_converter", by_litert_converter),
    }
    for name, (package, route) in jax_routes.items():
        if find_spec(package) is not None:
            yield from _of_route("JAX", name, FUNCTIONS, lambda x: x + 1, route)
    if find_spec("torch") is not None and find_spec("litert_torch") is not None:
        import torch

        yield from _of_route("PyTorch", "litert-torch", modules(), torch.nn.Tanh().eval(), by_litert_torch)


def _of_route(
    source: str, name: str, models: Mapping[str, tuple[Any, tuple[int, ...]]], small: Any, route: Route
) -> Iterator[dict[str, Any]]:
    """A row for each model, after a small one that imports everything."""
    route(small, (1,))
    by_jfuse(small, (1,))
    for model, (made, shape) in models.items():
        yield {"source": source, "route": name, "model": model, **measured(made, shape, route)}


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
        raise JfuseError(
            "no other converter is installed", expected="tensorflow, litert-converter or litert-torch, to compare with"
        )
    if chosen.json:
        kept = [{k: v for k, v in row.items() if chosen.idle or not k.endswith(("_seconds", "_us"))} for row in found]
        if chosen.json.exists():
            made = {(row["source"], row["route"]) for row in kept}
            before = json.loads(chosen.json.read_text(encoding="utf-8"))
            kept = [row for row in before if (row["source"], row["route"]) not in made] + kept
        chosen.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
