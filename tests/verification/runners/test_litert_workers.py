"""LiteRT in processes of its own: arrays of all kinds go there and back, and calls without end are ended."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import jfuse
from jfuse.base.limits import Limits
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.running.litert_worker.messages import PROGRESS, Messages
from jfuse.running.litert_workers import LiteRtWorkers
from jfuse.running.patience import Patience
from jfuse.running.worker import LiteRtFailed
from jfuse.tflite.write.file import to_bytes
from tests.tflite import programs
from tests.tflite.programs import KEY, f32, program

SAMPLES = 37


def test_a_sample_without_end_is_told() -> None:
    """The loop adds up its inputs until they exceed a number, so that with two zeros it never ends."""
    workers = LiteRtWorkers(to_bytes(programs.loop()), 2, limits=Limits(seconds=1.5))
    x = np.zeros((SAMPLES, 2, 3), np.float32)
    a, b = np.ones((2, SAMPLES), np.int32)
    a[30] = b[30] = 0
    with pytest.raises(LiteRtFailed, match=r"does not come to an end on sample 30\n.*an answer within 1.5 s") as failed:
        workers.run({"x0": a, "x1": b, "x2": x}, KEY)
    assert failed.value.sample == 30
    found = workers.run({"x0": a[:9], "x1": b[:9], "x2": x[:9]}, KEY)  # in other processes
    assert found["y0"].tolist() == [int(programs.loop_reference(1, 1, x[0])[0])] * 9
    workers.close()


def test_what_was_compared_before_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = program(lambda x: ops.mul(x, x), f32(3))

    def late(self: LiteRtWorkers, inputs: dict[str, np.ndarray], key: str, **_: bool) -> None:
        assert self.limits.seconds == 5
        failed = LiteRtFailed("LiteRT does not come to an end on sample 3", remedy="patience")
        failed.sample, failed.calls = 3, ((key, {"x0": inputs["x0"][3]}),)
        raise failed

    monkeypatch.setattr(LiteRtWorkers, "run", late)
    with pytest.raises(LiteRtFailed, match=r"sample 3\n.*patience; its inputs are in .*failing-sample.npz") as failed:
        jfuse.verify(to_bytes(of), samples=SAMPLES, edges="none", save_failing=tmp_path, limits=jfuse.Limits(seconds=5))
    kept = failed.value.verification
    assert not kept.passed
    assert "not all was compared: LiteRT does not come to an end on sample 3" in kept.notes
    assert [(d.pair, d.samples > 0, d.error) for d in kept.differences] == [("xla/litert", True, 0.0)]
    with np.load(kept.failing) as arrays:
        np.testing.assert_array_equal(arrays[f"000/{KEY}/x0"], kept.inputs[0][1]["x0"])
    assert jfuse.verify(to_bytes(of), inputs=kept.failing).passed  # in this process


def test_how_long_a_call_may_take() -> None:
    waiting = Patience()
    assert (waiting.seconds(loading=True), waiting.seconds(loading=False)) == (600, 600)
    waiting.ended(100, 1.0)
    assert (waiting.seconds(loading=True), waiting.seconds(loading=False)) == (600, 60)
    slow = Patience()
    slow.ended(2, 100.0)
    assert slow.seconds(loading=False) == 5000
    assert (Patience(3.0).seconds(loading=True), Patience(3.0).seconds(loading=False)) == (23, 3)  # a process starts


def test_samples_of_all_kinds() -> None:
    """Texts, odd numbers of bytes, and samples that do not lie in a row."""
    of = program(
        lambda texts, flags, x: (
            ops.gather(texts, np.array([1, 0], np.int32), axis=0),
            ops.logical_not(flags),
            ops.add(x, x),
        ),
        TensorType((2,), DType.string),
        TensorType((3,), DType.bool),
        f32(3, 2),
    )
    texts = np.array([[b"a", b"\xff\0c" * i] for i in range(SAMPLES)], object)
    flags = np.arange(SAMPLES * 3).reshape(SAMPLES, 3) % 2 == 0
    x = np.random.default_rng(0).normal(size=(SAMPLES, 2, 3)).astype(np.float32).swapaxes(1, 2)
    workers = LiteRtWorkers(to_bytes(of), 2)
    for part in (slice(20), slice(None), slice(5)):
        found = workers.run({"x0": texts[part], "x1": flags[part], "x2": x[part]}, KEY)
        assert found["y0"].tolist() == texts[part, ::-1].tolist()
        np.testing.assert_array_equal(found["y1"], ~flags[part])
        np.testing.assert_array_equal(found["y2"], x[part] * 2)
    workers.close()


@pytest.mark.parametrize("has_files", [True, False])
def test_messages(has_files: bool, tmp_path: Path) -> None:
    """Larger and smaller ones in turn, without arrays, and with arrays that have no elements; progress between them."""
    first, second = (os.open(tmp_path / name, os.O_RDWR | os.O_CREAT) if has_files else None for name in "ab")
    sent, noted = bytearray(), list[bytes]()

    def read(count: int) -> bytes:
        if len(sent) < count:
            raise EOFError
        part = bytes(sent[:count])
        del sent[:count]
        return part

    sender = Messages(read, sent.extend, first, second)
    receiver = Messages(read, sent.extend, second, first, noted.append)
    for count in (3, 100_000, 0, 7):
        arrays: dict[str, np.ndarray] = {
            "x": np.arange(count, dtype=np.int8),
            "y": np.ones((count, 2)),
            "none": np.zeros((0, 4)),
        }
        for message in (("key", arrays), None):
            sender.tell(PROGRESS.pack(count, -1))
            sender.send(message)
            found = receiver.receive()
            assert noted.pop() == PROGRESS.pack(count, -1)
            assert (found is None) == (message is None)
            if found is not None:
                assert found[0] == "key"
                for name, array in arrays.items():
                    np.testing.assert_array_equal(found[1][name], array, strict=True)
    with pytest.raises(EOFError):
        receiver.receive()
    for handle in filter(None, (first, second)):
        os.close(handle)
