"""A process that runs one file in LiteRT, on samples that come over its standard input.

    python litert_worker MODEL.tflite PROGRESS AUTO|BUILTIN_WITHOUT_DEFAULT_DELEGATES

It imports neither TensorFlow nor jax nor jfuse, so that it is there at once. Requests and answers are pickles:
`(key, fresh, in_a_row, {name: samples})` and `(outputs by name, None)`, or `(None, (sample, message))` where one is
refused. PROGRESS is a file of eight bytes, which hold the number of the sample that runs: whoever finds the process
dead reads there which one it was. fresh: an interpreter for each sample, as what the file keeps between calls must be
left out. in_a_row: a sample is several calls.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType


def main(model: str, progress: str, resolver: str) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the runtime prints must not get between the answers
    with open(progress, "r+b") as file, mmap.mmap(file.fileno(), 8) as counter:
        serve(Runner(model, counter, resolver), sys.stdin.buffer, answers)


def serve(runner: Runner, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer each request."""
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(runner.run(*request), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


class Runner:
    """One file in LiteRT, with one thread. counter: where the number of the current sample is kept."""

    def __init__(self, model: str, counter: mmap.mmap, resolver: str) -> None:
        self._model = model
        self._resolver = OpResolverType[resolver]
        self._counter = counter
        self._interpreter = self._new()

    def _new(self) -> Interpreter:
        return Interpreter(model_path=self._model, num_threads=1, experimental_op_resolver_type=self._resolver)

    def run(self, key: str, fresh: bool, in_a_row: bool, inputs: dict[str, np.ndarray]) -> tuple[Any, Any]:
        """The outputs of all samples, stacked, or the number of the one that is refused, and why."""
        found = []
        for number, sample in enumerate(_items(inputs)):
            self._counter[:8] = struct.pack("<q", number)
            if fresh and number:
                self._interpreter = self._new()
            signature = self._interpreter.get_signature_runner(key)
            try:
                if in_a_row:
                    found.append(_stacked([_copied(signature(**one)) for one in _items(sample)]))
                else:
                    found.append(_copied(signature(**sample)))
            except (ValueError, RuntimeError) as error:
                return None, (number, " ".join(str(error).split()))
        if fresh:
            self._interpreter = self._new()
        return _stacked(found), None


def _items(arrays: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """What stands along the first axis of every array."""
    return (dict(zip(arrays, each, strict=True)) for each in zip(*arrays.values(), strict=True))


def _copied(outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in outputs.items()}


def _stacked(found: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.stack([outputs[name] for outputs in found]) for name in found[0]}


if __name__ == "__main__":
    main(*sys.argv[1:])
