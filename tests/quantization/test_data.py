"""Calibration data: every form gives the same calls, and what does not fit is one error that names the item."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import while_
from jfuse.quantization.data import calibration_items
from tests.tflite.programs import BATCH, f32, i32

ROWS = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
IDS = np.arange(6, dtype=np.int32)


def gathered() -> Program:
    """A table of 9 rows: x + table[ids]."""
    table = np.zeros((9, 4), np.float32)
    graph = trace_graph(lambda x, ids: ops.add(x, ops.gather(table, ids, axis=0)), [f32(BATCH, 4), i32(BATCH)])
    return Program((Signature("call", graph, ("x", "ids"), ("y",)),))


def generator() -> Iterator[Any]:
    for n in range(6):
        yield {"x": ROWS[n : n + 1], "ids": IDS[n : n + 1]}


def dataset() -> Any:
    return tf.data.Dataset.from_tensor_slices({"x": ROWS, "ids": IDS}).batch(1)


FORMS: dict[str, Any] = {
    "function": generator,
    "generator": generator(),
    "dicts": list(generator()),
    "lists": [[d["x"], d["ids"]] for d in generator()],
    "tuples": [(tf.constant(d["x"]), d["ids"]) for d in generator()],
    "keyed": [("call", d) for d in generator()],
    "sequences": [list(generator())[:2], [("call", [ROWS[2:3], IDS[2:3]])], list(generator())[3:]],
    "tf.data": dataset,
    "arrays": {"x": ROWS.astype(np.float64), "ids": IDS.astype(np.int64)},
    "by signature": {"call": {"x": ROWS, "ids": IDS}},
    "with an axis for calls": {"x": ROWS[:, None], "ids": IDS[:, None]},
}


@pytest.mark.parametrize("form", [*FORMS, "npz", "folder"])
def test_every_form_gives_the_same_calls(form: str, tmp_path: Path) -> None:
    data = FORMS.get(form)
    if form == "npz":
        np.savez(data := tmp_path / "data.npz", x=ROWS, ids=IDS)
    if form == "folder":
        data = str(tmp_path)
        for number, part in enumerate(np.split(np.arange(6), 3)):
            np.savez(tmp_path / f"{number}.npz", x=ROWS[part], ids=IDS[part])
    items = list(calibration_items(gathered(), data))
    calls = [call for item in items for call in item.calls]
    assert {(c.inputs["x"].shape, c.inputs["x"].dtype.name, c.inputs["ids"].dtype.name) for c in calls} == {
        ((1, 4), "float32", "int32")
    }
    np.testing.assert_array_equal(np.concatenate([c.inputs["x"] for c in calls]), ROWS)
    np.testing.assert_array_equal(np.concatenate([c.inputs["ids"] for c in calls]), IDS)
    assert [item.goes_on for item in items] == [form != "sequences"] * len(items)


def test_arrays_fill_a_fixed_batch(tmp_path: Path) -> None:
    graph = trace_graph(lambda x: ops.neg(x), [f32(4, 4)])
    np.save(tmp_path / "x.npy", ROWS)
    (item,) = calibration_items(Program((Signature("call", graph, ("x",), ("y",)),)), tmp_path / "x.npy")
    np.testing.assert_array_equal(item.calls[0].inputs["x"], ROWS[:4])


def with_a_nan() -> Iterator[Any]:
    yield {"x": ROWS, "ids": IDS}
    yield {"x": np.full((1, 4), np.nan), "ids": IDS[:1]}


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "nothing": (lambda: [], "there is no calibration data"),
    "an input is missing": (lambda: [{"x": ROWS}], r"item 0 of the calibration data does not have the inputs.*'call'"),
    "another name": (lambda: {"x": ROWS, "id": IDS}, "the calibration data does not have the inputs"),
    "too many arrays": (lambda: [[ROWS, IDS, IDS]], "item 0 .*found +3 arrays"),
    "another shape": (lambda: [{"x": ROWS[:, :3], "ids": IDS}], r"'x' in item 0 .* does not fit.*float32\[6, 3\]"),
    "another dtype": (lambda: [{"x": ROWS, "ids": ROWS[:, 0]}], r"'ids' in item 0 .* does not fit.*float32\[6\]"),
    "sizes disagree": (lambda: [{"x": ROWS, "ids": IDS[:2]}], "'ids' in item 0 .* has another size B"),
    "not finite": (with_a_nan, r"'x' in item 1 of the calibration data is not finite.*nan at \[0, 0\]"),
    "an infinity": (lambda: {"x": np.where(ROWS > 0, np.inf, ROWS), "ids": IDS}, "'x' in the calibration data is not"),
    "ids beyond the table": (
        lambda: [[ROWS, IDS + 4]],
        "'ids' in item 0 .* has ids beyond the table.*below 9.* 9",
    ),
    "too large ids": (lambda: [[ROWS, IDS + np.int64(2**33)]], "'ids' in item 0 .* has numbers that i32 cannot hold"),
    "ids of arrays beyond the table": (
        lambda: {"x": ROWS, "ids": np.where(np.arange(6) == 4, 9, IDS)},
        "'ids' in call 4 of the calibration data has ids beyond the table.*below 9.* 9",
    ),
    "too large ids of arrays": (
        lambda: {"x": ROWS, "ids": np.where(np.arange(6) == 2, np.int64(2**33), IDS)},
        "'ids' in call 2 of the calibration data has numbers that i32 cannot hold",
    ),
    "no rows": (lambda: {"x": ROWS[:0], "ids": IDS[:0]}, "has not enough rows for a call.*'x': 1 or more"),
    "no batch": (lambda: [{"x": ROWS[0], "ids": IDS}], r"'x' in item 0 .* does not fit.*array\[None\]"),
    "floats for ids": (lambda: [{"x": ROWS, "ids": ROWS[:, 0]}], r"does not fit.*np\.int32"),
    "lengths": (lambda: {"x": ROWS, "ids": IDS[:3]}, "arrays of different lengths"),
    "no signature": (lambda: [("other", {"x": ROWS, "ids": IDS})], "item 0 of .* calls 'other'"),
    "no data": (lambda: 7, "no calibration data: 7"),
    "ragged": (lambda: [{"x": [[1.0], [1.0, 2.0]], "ids": IDS}], "'x' in item 0 .* is no array"),
    "an empty sequence": (lambda: [[]], "item 0 of the calibration data is empty"),
    "no file": (
        lambda: "nowhere.npz",
        r"no calibration data at nowhere\.npz.*nothing there.*try.*calibration='random'",
    ),
    "a file that is none": (lambda: __file__, "cannot be read as arrays"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_names_the_item(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(JfuseError) as error:
        list(calibration_items(gathered(), make()))
    assert re.search(message, str(error.value).replace("\n", " ")), str(error.value)


def test_an_array_alone_is_for_one_input() -> None:
    with pytest.raises(JfuseError, match="does not have the inputs"):
        list(calibration_items(gathered(), ROWS))
    with pytest.raises(JfuseError, match="has no signature 'other'"):
        list(calibration_items(gathered(), ROWS, "other"))


def test_arrays_in_a_row_for_one_input_are_told_apart_from_calls() -> None:
    program = Program((Signature("call", trace_graph(lambda x: ops.neg(x), [f32(BATCH, 4)]), ("x",), ("y",)),))
    rows = [ROWS[n : n + 1] for n in range(3)]
    with pytest.raises(
        JfuseError, match=r"item 0 .*(\n.*)*found +3 arrays\n +try +a row of calls .* \[\[x\] for x in …\]"
    ):
        list(calibration_items(program, [rows]))
    (item,) = calibration_items(program, [[[x] for x in rows]])
    assert not item.goes_on
    np.testing.assert_array_equal(np.concatenate([call.inputs["x"] for call in item.calls]), ROWS[:3])


def test_errors_of_the_users_own_function_pass() -> None:
    def broken() -> Iterator[Any]:
        yield {"x": ROWS, "ids": IDS}
        raise KeyError("the user's")

    with pytest.raises(KeyError, match="the user's") as error:
        list(calibration_items(gathered(), broken))
    (note,) = error.value.__notes__
    assert "item 1 of the calibration data" in note


@pytest.mark.parametrize("make", [iter, lambda items: lambda: items], ids=["an iterator", "a function"])
def test_errors_of_a_library_that_gives_the_data_pass(make: Callable[[Any], Any]) -> None:
    """No frame of the traceback is the user's then."""
    program = Program((Signature("call", trace_graph(lambda x: ops.relu(x), [f32(1, 4)]), ("x",), ("y",)),))
    with pytest.raises(FileNotFoundError, match=r"missing\.npy") as error:
        jfuse.quantize(jfuse.Model(program), "int8", make(map(np.load, ["missing.npy"])))
    assert any("asked for item 0 of the calibration data" in note for note in error.value.__notes__)


def test_strings_and_other_types() -> None:
    types = [TensorType((BATCH,), DType.string), TensorType((BATCH,), DType.u8)]
    graph = trace_graph(lambda s, u: ops.cast(u, out_data_type=DType.f32), types)
    program = Program((Signature("call", graph, ("s", "u"), ("y",)),))
    (item,) = calibration_items(program, [{"s": ["a", "ö"], "u": np.array([1, 255])}])
    assert item.calls[0].inputs["s"].tolist() == [b"a", "ö".encode()]
    assert item.calls[0].inputs["u"].dtype == np.uint8


def test_random_sequences_are_long_enough_for_each_loop() -> None:
    """Turns of up to 16 steps run, and there are steps left over."""

    def looping(x: Any) -> Any:
        count = trace_graph(lambda i, x: ops.less(i, np.int32(2)), [i32(), f32(BATCH, 4)])
        turn = trace_graph(lambda i, x: (ops.add(i, np.int32(1)), ops.abs_(x)), [i32(), f32(BATCH, 4)])
        return while_([np.int32(0), x], (count, turn))[1]

    for function, sizes in ((ops.abs_, {3}), (looping, {17})):
        program = Program((Signature("call", trace_graph(function, [f32(BATCH, 4)]), ("x",), ("y",)),))
        items = list(calibration_items(program, "random"))
        assert {call.inputs["x"].shape[0] for item in items for call in item.calls} == sizes
