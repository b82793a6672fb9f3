"""Damaged files: whatever the bytes are, loading ends soon, in a program or in an error of ours that names a place."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Program
from jfuse.ir.text import format_program
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from tests.tflite import programs
from tests.tflite.read.test_sparse import in_blocks, product
from tests.tflite.read.test_whole import integer_dense, integer_lstm

SECONDS = 5.0  # for one file; nearly all take a few milliseconds
MEGABYTES = 400  # by which the memory may grow over all cases of a test; jax's caches are among it


def sparse() -> Program:
    return product(in_blocks()[0])


def lstm() -> Program:
    return integer_lstm(3)


MAKERS = [programs.dense, programs.loop, integer_dense, lstm, sparse]
FILES = {make.__name__: to_bytes(make()) for make in MAKERS}


def survives(data: bytes) -> str:
    """How loading, printing and saving ended: well, or in an error of ours that names a place."""
    started = time.perf_counter()
    refused: JfuseError | None = None
    try:
        program = load_tflite(data)
        format_program(program)
        to_bytes(program)
    except JfuseError as error:
        refused = error
    assert time.perf_counter() - started < SECONDS
    assert refused is None or refused.where
    return "loaded" if refused is None else type(refused).__name__


def endings(cases: Iterator[bytes]) -> dict[str, int]:
    before = peak_megabytes()
    found: dict[str, int] = {}
    for data in cases:
        ending = survives(data)
        found[ending] = found.get(ending, 0) + 1
    assert peak_megabytes() - before < MEGABYTES
    return found


def peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def test_truncation_at_every_byte() -> None:
    data = min(FILES.values(), key=len)
    assert len(data) < 1500
    needed = len(data) - 16  # a file may lack what is at its end: zeros
    found = [survives(data[:length]) for length in range(len(data))]
    assert set(found[:needed]) == {"BadFlatbuffer"}


@pytest.mark.parametrize("name", FILES)
def test_single_bits(name: str) -> None:
    data = FILES[name]

    def flipped() -> Iterator[bytes]:
        rng = np.random.default_rng(17)
        for place in range(0, len(data), max(len(data) // 150, 1)):
            copy = bytearray(data)
            copy[place] ^= 1 << int(rng.integers(8))
            yield bytes(copy)

    found = endings(flipped())
    assert found["BadFlatbuffer"] > 10
    assert found["loaded"] > 10


WORDS = [0, 1, 2, 255, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 4]


@pytest.mark.parametrize("name", FILES)
def test_single_words(name: str) -> None:
    """Numbers that make good offsets, lengths and sizes bad."""
    data = FILES[name]

    def overwritten() -> Iterator[bytes]:
        rng = np.random.default_rng(18)
        for place in range(0, len(data) - 4, 4 * max(len(data) // 500, 1)):
            word = int(rng.choice(WORDS)) if rng.random() < 0.7 else int(rng.integers(len(data)))
            yield data[:place] + word.to_bytes(4, "little") + data[place + 4 :]

    assert endings(overwritten())["BadFlatbuffer"] > 20


@given(
    name=st.sampled_from(sorted(FILES)),
    edits=st.lists(st.tuples(st.integers(0, 2**16), st.binary(min_size=1, max_size=6)), min_size=1, max_size=6),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_random_edits(name: str, edits: list[tuple[int, bytes]]) -> None:
    data = bytearray(FILES[name])
    for place, new in edits:
        place %= len(data)
        data[place : place + len(new)] = new
    survives(bytes(data))


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_random_bytes_behind_the_identifier(tail: bytes) -> None:
    survives(tail[:4].ljust(4, b"\0") + b"TFL3" + tail[4:])


def test_what_is_copied_over_itself() -> None:
    """Tables that another table's offset leads to: valid by themselves, of the wrong kind."""

    def cases() -> Iterator[bytes]:
        rng = np.random.default_rng(19)
        names = sorted(FILES)
        for i in range(200):
            data = bytearray(FILES[names[i % len(names)]])
            here, there = (int(p) * 4 for p in rng.integers(0, len(data) // 4, 2))
            data[here : here + 4] = data[there : there + 4]
            yield bytes(data[: len(FILES[names[i % len(names)]])])

    assert endings(cases())["BadFlatbuffer"] > 25
