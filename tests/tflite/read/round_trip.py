"""What every round trip of a file must show, whoever wrote the file."""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from jfuse.ir.check import check_graph
from jfuse.ir.graph import Program
from jfuse.ir.parser import parse_program
from jfuse.ir.text import constants_of, format_program
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes

INVOKES = 2  # what is kept between calls shows in the second one


def round_trip(data: bytes) -> Program:
    """Load, check, print, parse and save a file: the text stays, and LiteRT answers bit for bit as before."""
    program = load_tflite(data)
    for graph in program.entries():
        check_graph(graph)
    text = format_program(program)
    parsed = parse_program(text, consts=constants_of(program))
    assert format_program(parsed) == text
    written = to_bytes(program)
    again = load_tflite(written)
    assert format_program(again) == text
    assert to_bytes(again) == written
    wanted = answers(data)
    assert_equal(answers(written), wanted)
    assert_equal(answers(to_bytes(parsed)), wanted)
    return program


def answers(data: bytes) -> list[np.ndarray]:
    """All results of all signatures (of the first subgraph where there is none) on seeded inputs."""
    interpreter = Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    rng = np.random.default_rng(5)
    found: list[np.ndarray] = []
    signatures = interpreter.get_signature_list()
    for _ in range(INVOKES):
        for key in sorted(signatures):
            runner = interpreter.get_signature_runner(key)
            inputs = {name: _values(d, rng) for name, d in sorted(runner.get_input_details().items())}
            results = runner(**inputs)
            found += [np.asarray(results[name]) for name in sorted(results)]
        if not signatures:
            for detail in interpreter.get_input_details():
                interpreter.set_tensor(detail["index"], _values(detail, rng))
            interpreter.invoke()
            found += [np.array(interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]
    return found


def assert_equal(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    """Bit for bit."""
    assert len(found) == len(wanted) > 0
    for f, w in zip(found, wanted, strict=True):
        assert (f.dtype, f.shape) == (w.dtype, w.shape)
        assert f.tolist() == w.tolist() if f.dtype == object else f.tobytes() == w.tobytes()


def _values(detail: Any, rng: np.random.Generator) -> np.ndarray:
    shape, dtype = tuple(detail["shape"]), np.dtype(detail["dtype"])
    if dtype.kind in "SO":
        return np.array(["a", "bc", "z"] * 8, dtype=object)[: int(np.prod(shape))].reshape(shape)
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, 3, shape).astype(dtype)
