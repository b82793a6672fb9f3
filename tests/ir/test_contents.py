"""Constants with equal contents, and copies of transposed arrays in the order of their elements."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jfuse.ir import contents
from jfuse.ir.contents import Contents, blocks, contiguous, count_nans, give_back, in_order, same_bytes
from jfuse.ir.graph import Const
from tests.memory import mapped_copy, of_files_mib

RNG = np.random.default_rng(0)
LARGE = RNG.standard_normal((3, 3, 64, 256)).astype(np.float32)


def changed(array: np.ndarray, place: int) -> np.ndarray:
    """A copy with one element changed."""
    copy = array.copy()
    copy.reshape(-1)[place] += 1
    return copy


@pytest.mark.parametrize("array", [LARGE, LARGE[0, 0, 0, :7], np.array([b"a", b"bc"], object)])
def test_equal_contents_have_one_number(array: np.ndarray) -> None:
    found = Contents()
    assert found.number(Const(array)) == found.number(Const(array.copy())) == 0


@pytest.mark.parametrize("place", [0, 1, 70_001, LARGE.size - 1])
def test_contents_that_differ_in_one_element_have_two(place: int) -> None:
    found = Contents()
    one, other = LARGE, changed(LARGE, place)
    assert found.number(Const(one)) != found.number(Const(other))
    assert found.number(Const(other.copy())) == found.number(Const(other))
    assert not same_bytes(one, other)


def test_arrays_that_are_gone_leave_nothing_behind() -> None:
    """The next array often has the memory of one that nobody holds any more."""
    for make in (lambda i: np.full(2000, i, np.float32), lambda i: np.full(3, i, np.int8), np.int8):
        found = Contents()
        arrays: Iterator[Any] = map(make, range(50))
        assert [found.number(Const(a)) for a in arrays] == list(range(50))


def test_types_and_shapes_count() -> None:
    found = Contents()
    zeros = [np.zeros((4, 500), t) for t in ("f4", "i4", "f2")] + [np.zeros((500, 4), np.float32)]
    assert len({found.number(Const(z)) for z in zeros}) == 4


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


@pytest.mark.parametrize("turned", [False, True])
def test_the_memory_of_a_mapped_file_is_given_back(tmp_path: Path, turned: bool) -> None:
    values = np.arange(2**22, dtype=np.float32).reshape(1024, -1)
    mapped = mapped_copy(values, tmp_path / "weights")
    view = mapped.T if turned else mapped
    before = of_files_mib()
    assert contiguous(view).sum() == values.sum()
    if not turned:
        assert of_files_mib() > before + 12
        give_back(view)
    assert of_files_mib() < before + 4  # of 16
    np.testing.assert_array_equal(mapped, values)


def test_what_is_read_in_blocks_never_holds_much_of_a_mapped_file(tmp_path: Path) -> None:
    values = np.arange(2**22, dtype=np.float32)
    mapped = mapped_copy(values, tmp_path / "weights")
    before, total = of_files_mib(), 0.0
    for block in blocks(mapped):
        total += block.sum(dtype=np.float64)
        assert of_files_mib() < before + 8  # of 16; the system reads ahead
    assert total == values.sum(dtype=np.float64)
    assert count_nans(mapped) == 0
    assert same_bytes(mapped, values)
    assert of_files_mib() < before + 4


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 0, 1), (0, 2, 1), (2, 1, 0), (0, 1, 2)])
@pytest.mark.parametrize("most", [1, 40_000, 2**25])
def test_rows_in_order_make_up_the_array(monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...], most: int) -> None:
    monkeypatch.setattr(contents, "_COPIED", most)
    array = RNG.standard_normal((7, 130, 110)).transpose(order)
    parts = list(in_order(array))
    assert all(part.flags.c_contiguous for part in parts)
    np.testing.assert_array_equal(np.concatenate(parts), array)
    assert max(part.nbytes for part in parts) <= (array.nbytes if order == (0, 1, 2) else max(most, array[0].nbytes))
    for small in (np.array(3.0), np.zeros((0, 3)), np.zeros((3, 0)).T):
        (part,) = in_order(small)
        assert part.shape == small.shape


def test_rows_in_order_give_back_the_memory_of_a_mapped_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_COPIED", 2**21)
    values = np.arange(2**22, dtype=np.float32).reshape(2048, -1)
    mapped = mapped_copy(values, tmp_path / "weights")
    before = of_files_mib()
    assert sum(part.sum(dtype=np.float64) for part in in_order(mapped.T)) == values.sum(dtype=np.float64)
    assert of_files_mib() < before + 4  # of 16


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
