"""Cost of large sources: time per equation as programs grow, and memory as weights do.

    python -m bench.scale [--json bench/results/scale.json] [NAME ...]

Each figure is of a process of its own, which makes the source, converts a small model first (what is made once for a
process is not counted), then converts without verification and saves the file.
Time: seconds of the processor, and milliseconds for each operator of the source, whose nodes are alike.
Memory: by how much the peak of the process grew, in MB and as a share of the weights; of `folder` rows a SavedModel
that another process wrote, of `memory` rows a Keras model that stands in memory, whose weights are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.benchmark.peak_memory import begin_peak, peak_mib
from jfuse.running.cores import cores

_MB = 1e6
_SIZE = 16  # elements of each value of a program


def in_a_row(count: int) -> Any:
    """Operators in a row: y = tanh(y + 1), and so on."""
    return _graph_def([_pair(f"n{i}", f"n{i - 1}/t" if i else "x") for i in range(count // 2)], f"n{count // 2 - 1}/t")


def wide(count: int) -> Any:
    """Operators side by side, whose results are added up."""
    pairs = [_pair(f"n{i}", "x") for i in range(count // 2)]
    total = [_node("total", "AddN", [f"n{i}/t" for i in range(count // 2)], N=count // 2)]
    return _graph_def([*pairs, total], "total")


def calls(count: int) -> Any:
    """Functions that call each other, `count` deep, each for a tanh and a sum."""
    return _nested(count, lambda inner: [_node("call", "PartitionedCall", ["n/t"], f=inner)])


def conds(count: int) -> Any:
    """Branches in each other, `count` deep, on a condition of the run."""

    def nodes(inner: str) -> list[Any]:
        axis = _node("axis", "Const", [], dtype=np.int32, value=np.array([0], np.int32))
        total = _node("total", "Sum", ["n/t", "axis"], Tidx=np.int32)
        found = _node("call", "If", ["asked", "n/t"], then_branch=inner, else_branch="leaf", Tcond=bool)
        return [axis, total, _node("asked", "Greater", ["total", "one"]), found]

    return _nested(count, nodes)


def cells(count: int) -> Any:
    """Keras LSTMs over each other, which differ in their weights alone."""
    import keras

    return keras.Sequential([keras.Input((8, 4)), *(keras.layers.LSTM(4, return_sequences=True) for _ in range(count))])


def dense(gigabytes: int) -> Any:
    """Layers of 8,192 by 8,192 weights, 0.27 GB each."""
    import keras

    size = 8192
    count = round(gigabytes * 1e9 / (4 * size * size))
    of = keras.initializers.Constant  # another number in each layer: equal weights are written once
    layers = [keras.layers.Dense(size, use_bias=False, kernel_initializer=of(1e-4 * (i + 1))) for i in range(count)]
    return keras.Sequential([keras.Input((size,)), *layers])


def application(name: str) -> Any:
    """A model of keras.applications with random weights."""
    import keras

    return getattr(keras.applications, name)(weights=None)


TIMES: Mapping[str, tuple[Callable[[int], Any], tuple[int, ...]]] = {
    "chain": (in_a_row, (100, 1000, 10_000, 50_000)),
    "wide": (wide, (100, 1000, 10_000, 50_000)),
    "calls": (calls, (300, 3000)),
    "conds": (conds, (20, 200)),
    "cells": (cells, (5, 50)),
}
MEMORY: Mapping[str, Callable[[], Any]] = {
    "ResNet50": partial(application, "ResNet50"),
    "VGG16": partial(application, "VGG16"),
    "1 GB": partial(dense, 1),
    "3 GB": partial(dense, 3),
    "6 GB": partial(dense, 6),
}


def _node(name: str, op: str, inputs: list[str], **attributes: Any) -> Any:
    """A node on floats. attributes: counts, types, arrays, names of functions that take and give one float tensor."""
    import tensorflow as tf
    from tensorflow.core.framework import node_def_pb2

    node = node_def_pb2.NodeDef(name=name, op=op, input=inputs)
    float32 = tf.float32.as_datatype_enum
    if op not in {"Const", "PartitionedCall", "If"}:
        node.attr["T"].type = float32
    for key, value in attributes.items():
        if isinstance(value, str):
            node.attr[key].func.name = value
            node.attr["Tin"].list.type[:] = node.attr["Tout"].list.type[:] = [float32]
        elif isinstance(value, np.ndarray):
            node.attr[key].tensor.CopyFrom(tf.make_tensor_proto(value))
        elif isinstance(value, int):
            node.attr[key].i = value
        else:
            node.attr[key].type = tf.as_dtype(value).as_datatype_enum
    return node


def _pair(name: str, of: str) -> list[Any]:
    return [_node(f"{name}/a", "AddV2", [of, "one"]), _node(f"{name}/t", "Tanh", [f"{name}/a"])]


def _graph_def(groups: list[list[Any]], output: str, functions: Sequence[Any] = ()) -> tuple[Any, dict[str, Any]]:
    from tensorflow.core.framework import graph_pb2, tensor_shape_pb2

    shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=_SIZE)])
    x = _node("x", "Placeholder", [], dtype=np.float32)
    del x.attr["T"]
    x.attr["shape"].shape.CopyFrom(shape)
    one = _node("one", "Const", [], dtype=np.float32, value=np.array(1, np.float32))
    graph_def = graph_pb2.GraphDef(node=[x, one, *chain.from_iterable(groups)])
    graph_def.library.function.extend(functions)
    graph_def.versions.producer = 1882  # of TensorFlow 2.21
    return graph_def, {"input_tensors": ["x"], "output_tensors": [output]}


def _nested(count: int, nodes: Callable[[str], list[Any]]) -> Any:
    """Functions that hold each other: each a pair of operators, then the nodes that call the next."""
    functions = [_function("leaf", [_node("call", "Tanh", ["n/t"])])]
    functions += [_function(f"f{i}", nodes(f"f{i - 1}" if i else "leaf")) for i in range(count)]
    return _graph_def([[_node("top", "PartitionedCall", ["x"], f=f"f{count - 1}")]], "top", functions)


def _function(name: str, nodes: list[Any]) -> Any:
    from tensorflow.core.framework import function_pb2, op_def_pb2, types_pb2

    of = op_def_pb2.OpDef.ArgDef
    floats = types_pb2.DT_FLOAT
    signature = op_def_pb2.OpDef(
        name=name, input_arg=[of(name="x", type=floats)], output_arg=[of(name="y", type=floats)]
    )
    one = _node("one", "Const", [], dtype=np.float32, value=np.array(1, np.float32))
    inside = [one, *_pair("n", "x"), *nodes]
    places = {"AddV2": "z", "Tanh": "y", "Sum": "output", "Greater": "z"}
    ends = {node.name: f"{node.name}:{places.get(node.op, 'output')}:0" for node in inside}
    for node in inside:
        node.input[:] = [ends.get(read, read) for read in node.input]
    return function_pb2.FunctionDef(signature=signature, node_def=inside, ret={"y": ends["call"]})


def convert(source: Any, **options: Any) -> dict[str, Any]:
    """Convert and save; processor seconds and, where the system tells, the growth of the process's peak in bytes."""
    import jfuse

    begin_peak()
    before, started = peak_mib(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path = jfuse.convert(source, verify=False, **options).save(Path(folder, "model.tflite"))
        seconds = time.process_time() - started
        after = peak_mib()
        grown = {} if before is None or after is None else {"peak_bytes": (after - before) * 2**20}
        return {"seconds": seconds, "file_bytes": path.stat().st_size, **grown}


def child(kind: str, name: str, size: int, folder: str) -> dict[str, Any]:
    """One measurement, in this process."""
    if kind == "export":
        MEMORY[name]().export(folder, verbose=False)
        return {}
    small, options = _few(in_a_row(4))
    convert(small, **options)
    source: Any
    if kind == "time":
        source, options = _few(TIMES[name][0](size))
    else:
        source, options = (folder if kind == "folder" else MEMORY[name]()), {}
    return convert(source, **options)


def _few(source: Any) -> tuple[Any, dict[str, Any]]:
    return source if isinstance(source, tuple) else (source, {})


def _asked(*arguments: str) -> dict[str, Any]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    command = [sys.executable, "-m", "bench.scale", "--child", *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    return dict(json.loads(lines[-1])) if done.returncode == 0 and lines else {"failed": done.returncode}


def time_row(name: str, size: int) -> dict[str, Any]:
    """How long a program of so many operators takes."""
    found = _asked("time", name, str(size), "")
    if "seconds" in found:
        found["ms_each"] = 1e3 * found["seconds"] / size
    return {"kind": "time", "name": name, "size": size, **found}


def memory_rows(name: str) -> list[dict[str, Any]]:
    """How far the peak grows, from a folder and from a model in memory."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = str(Path(temporary, "model"))
        _asked("export", name, "0", folder)
        rows = [{"kind": kind, "name": name, **_asked(kind, name, "0", folder)} for kind in ("folder", "memory")]
    for row in rows:
        if "peak_bytes" in row:
            row["of_weights"] = row["peak_bytes"] / row["file_bytes"]
    return rows


def line(row: Mapping[str, Any]) -> str:
    """A row for a terminal."""
    if "failed" in row:
        return f"{row['kind']:<7} {row['name']:<9} ended with {row['failed']}"
    if row["kind"] == "time":
        return f"time    {row['name']:<9} {row['size']:>6}: {row['seconds']:8.2f} s, {row['ms_each']:6.3f} ms each"
    peak = "peak unknown"
    if "peak_bytes" in row:
        peak = f"peak {row['peak_bytes'] / _MB:+.0f} MB, {row['of_weights']:.2f} of the file"
    return f"{row['kind']:<7} {row['name']:<9} {row['file_bytes'] / _MB:8.0f} MB: {peak}, {row['seconds']:.2f} s"


def main() -> None:
    """Measure, print, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join([*TIMES, *MEMORY])}; default: all")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=4, metavar=("KIND", "NAME", "SIZE", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        kind, name, size, folder = arguments.child
        print(json.dumps(child(kind, name, int(size), folder)))
        return
    rows: list[dict[str, Any]] = []
    for name in arguments.names or [*TIMES, *MEMORY]:
        sizes = TIMES[name][1] if name in TIMES else (0,)
        for size in sizes:
            new = [time_row(name, size)] if name in TIMES else memory_rows(name)
            rows += new
            print("\n".join(map(line, new)), flush=True)
            if arguments.json is not None:
                arguments.json.write_text(
                    json.dumps({"cores": cores(), "rows": rows}, indent=1) + "\n", encoding="utf-8"
                )


if __name__ == "__main__":
    main()
