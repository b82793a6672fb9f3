"""One file in tflite-micro's interpreter, in a process of its own, so that a crash ends only that process.

Run as a program with the path of the file and the size of the arena in bytes. It reads pickled requests from its
standard input and writes pickled answers to its standard output: ("run", arrays) gives the outputs, ("reset", None)
clears what the file keeps, ("arena", None) prints the interpreter's own account of its memory to the standard error.
An answer is (result, None) or (None, the reason).
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

from tflite_micro.python.tflite_micro import runtime


def main(path: str, arena_bytes: int, outputs: int) -> None:
    """Answer requests until the input ends."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    try:
        interpreter = runtime.Interpreter.from_bytes(Path(path).read_bytes(), arena_size=arena_bytes)
        send(answers, ("ready", None))
    except Exception as error:
        send(answers, (None, str(error)))
        return
    while True:
        try:
            kind, arrays = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            send(answers, (_answer(interpreter, kind, arrays, outputs), None))
        except Exception as error:
            send(answers, (None, str(error)))


def _answer(interpreter: Any, kind: str, arrays: Any, outputs: int) -> Any:
    if kind == "reset":
        interpreter.reset()
        return None
    if kind == "arena":
        interpreter.print_allocations()
        return None
    for number, array in enumerate(arrays):
        interpreter.set_input(array, number)
    interpreter.invoke()
    return [interpreter.get_output(number) for number in range(outputs)]


def send(stream: Any, answer: Any) -> None:
    """Write one answer to a stream, for the process that waits for it."""
    pickle.dump(answer, stream)
    stream.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
