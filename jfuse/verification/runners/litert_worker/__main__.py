"""A process that runs one file in LiteRT, on samples that another process sends.

    python litert_worker MODEL.tflite PROGRESS SAMPLES OUTPUTS AUTO|BUILTIN_WITHOUT_DEFAULT_DELEGATES

It imports neither TensorFlow nor jax nor jfuse, so that it is there at once. Requests come over its standard input,
answers go over its standard output, as `Messages` with the files SAMPLES and OUTPUTS: `(key, fresh, in_a_row, {name:
samples})` and `(outputs by name, None)`, or `(None, (sample, message))` where one is refused. PROGRESS is a file of two
64-bit integers: how many calls were begun, and the number of the sample that runs, or how many there were when all are
done. Whoever finds the process dead reads there which one it was; one that does not change for long hangs. fresh: an
interpreter for each sample, as what the file keeps between calls must be left out. in_a_row: a sample is several calls.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from messages import PROGRESS, Messages  # type: ignore[import-not-found]  # beside this file, which is run as a folder


def main(model: str, progress: str, samples: str, outputs: str, resolver: str) -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the runtime prints must not get between the answers
    with open(progress, "r+b") as file, mmap.mmap(file.fileno(), struct.calcsize(PROGRESS)) as counter:
        serve(Runner(model, counter, resolver), Messages(sys.stdin.buffer, answers, samples, outputs))


def serve(runner: Runner, messages: Any) -> None:
    """Answer each request."""
    while True:
        try:
            request = messages.receive()
        except EOFError:
            return
        messages.send(runner.run(*request))


class Runner:
    """One file in LiteRT, with one thread. counter: where the progress is kept."""

    def __init__(self, model: str, counter: mmap.mmap, resolver: str) -> None:
        self._model = model
        self._resolver = OpResolverType[resolver]
        self._counter = counter
        self._calls = 0
        self._interpreter = self._new()

    def _new(self) -> Interpreter:
        return Interpreter(model_path=self._model, num_threads=1, experimental_op_resolver_type=self._resolver)

    def run(self, key: str, fresh: bool, in_a_row: bool, inputs: dict[str, np.ndarray]) -> tuple[Any, Any]:
        """The outputs of all samples, stacked, or the number of the one that is refused, and why."""
        found: list[dict[str, np.ndarray]] = []
        self._begin(0)
        signature = self._interpreter.get_signature_runner(key)
        for sample in _items(inputs):
            number = len(found)
            if fresh and number:
                self._interpreter = self._new()
                signature = self._interpreter.get_signature_runner(key)
            try:
                if in_a_row:
                    found.append(_stacked([self._call(signature, one, number) for one in _items(sample)]))
                else:
                    found.append(self._call(signature, sample, number))
            except (ValueError, RuntimeError) as error:
                self._begin(len(next(iter(inputs.values()))))
                return None, (number, " ".join(str(error).split()))
        if fresh:
            self._interpreter = self._new()
        self._begin(len(found))
        return _stacked(found), None

    def _call(self, signature: Any, inputs: dict[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
        self._begin(number)
        return {name: np.array(value) for name, value in signature(**inputs).items()}

    def _begin(self, number: int) -> None:
        self._calls += 1
        self._counter[:] = struct.pack(PROGRESS, self._calls, number)


def _items(arrays: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """What stands along the first axis of every array."""
    return (dict(zip(arrays, each, strict=True)) for each in zip(*arrays.values(), strict=True))


def _stacked(found: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.stack([outputs[name] for outputs in found]) for name in found[0]}


if __name__ == "__main__":
    main(*sys.argv[1:])
