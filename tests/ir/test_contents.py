"""Constants with equal contents, and copies of transposed arrays in the order of their elements."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jfuse.ir.contents import Contents, contiguous, count_nans, give_back, same_bytes
from jfuse.ir.graph import Const

RNG = np.random.default_rng(0)
LARGE = RNG.standard_normal((3, 3, 64, 256)).astype(np.float32)


def changed(array: np.ndarray, place: int) -> np.ndarray:
    """A copy with one element changed."""
    copy = array.copy()
    copy.reshape(-1)[place] += 1
    return copy


@pytest.mark.parametrize("array", [LARGE, LARGE[0, 0, 0, :7], np.array([b"a", b"bc"], object)])
def test_equal_contents_have_one_number(array: np.ndarray) -> None:
    contents = Contents()
    assert contents.number(Const(array)) == contents.number(Const(array.copy())) == 0


@pytest.mark.parametrize("place", [0, 1, 70_001, LARGE.size - 1])
def test_contents_that_differ_in_one_element_have_two(place: int) -> None:
    contents = Contents()
    one, other = LARGE, changed(LARGE, place)
    assert contents.number(Const(one)) != contents.number(Const(other))
    assert contents.number(Const(other.copy())) == contents.number(Const(other))
    assert not same_bytes(one, other)


def test_arrays_that_are_gone_leave_nothing_behind() -> None:
    """The next array often has the memory of one that nobody holds any more."""
    for make in (lambda i: np.full(2000, i, np.float32), lambda i: np.full(3, i, np.int8), np.int8):
        contents = Contents()
        arrays: Iterator[Any] = map(make, range(50))
        assert [contents.number(Const(a)) for a in arrays] == list(range(50))


def test_types_and_shapes_count() -> None:
    contents = Contents()
    zeros = [np.zeros((4, 500), t) for t in ("f4", "i4", "f2")] + [np.zeros((500, 4), np.float32)]
    assert len({contents.number(Const(z)) for z in zeros}) == 4


def test_bits_count() -> None:
    zeros, nan = np.zeros(10, np.float32), np.full(10, np.nan, np.float32)
    assert same_bytes(nan, nan.copy())
    assert not same_bytes(zeros, -zeros)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128])
@pytest.mark.parametrize("order", [(3, 0, 1, 2), (2, 3, 0, 1), (1, 2, 3, 0), (3, 2, 1, 0), (0, 1, 3, 2)])
def test_a_transposed_array_as_numpy_copies_it(order: tuple[int, ...], dtype: type[np.generic]) -> None:
    array = RNG.integers(-100, 100, (2, 7, 130, 1100)).astype(dtype).transpose(order)
    copy = contiguous(array)
    assert copy.flags.c_contiguous
    assert (copy == array).all()


def test_arrays_in_order_are_not_copied() -> None:
    assert contiguous(LARGE) is LARGE
    assert (contiguous(LARGE[:, ::2]) == LARGE[:, ::2]).all()


def _of_files_mib() -> float:
    """How much of the memory of this process is that of mapped files."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("the system does not tell")
    line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("RssFile"))
    return int(line.split()[1]) / 1024


@pytest.mark.parametrize("turned", [False, True])
def test_the_memory_of_a_mapped_file_is_given_back(tmp_path: Path, turned: bool) -> None:
    values = np.arange(2**22, dtype=np.float32).reshape(1024, -1)
    values.tofile(tmp_path / "weights")
    mapped = np.memmap(tmp_path / "weights", np.float32, mode="r").reshape(values.shape)
    view = mapped.T if turned else mapped
    before = _of_files_mib()
    assert contiguous(view).sum() == values.sum()
    if not turned:
        assert _of_files_mib() > before + 12
        give_back(view)
    assert _of_files_mib() < before + 4  # of 16
    np.testing.assert_array_equal(mapped, values)


def test_memory_of_ones_own_is_never_given_back() -> None:
    own = np.frombuffer(mmap.mmap(-1, 2**22), np.uint8)
    own[:] = 7
    for array in (own, own[::2], np.ones(2**20)):
        give_back(array)
        assert array.min() > 0


@pytest.mark.parametrize("places", [[], [0], [5, 2**20, 2**21 - 1]])
def test_nans_are_counted_in_blocks(places: list[int]) -> None:
    array = np.zeros((2, 2**20), np.float32)
    array.reshape(-1)[places] = np.nan
    assert count_nans(array) == count_nans(array.T) == len(places)
    assert count_nans(np.array([1, complex(0, np.nan)])) == 1
