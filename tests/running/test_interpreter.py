"""The LiteRT oracle against formulas: sizes that change, invokes that follow each other, clear refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import VerifyFailed
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Program, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.write.file import to_bytes
from jfuse.verification.locate.file_values import FileRun
from tests.tflite import programs
from tests.tflite.programs import BATCH, KEY, f32, program

both_kernels = pytest.mark.parametrize("delegates", [True, False])
TOLERANCE = 1e-5  # 1e-5: sums of 8 products of values up to 3 in f32


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


@both_kernels
def test_batches_of_every_size(delegates: bool) -> None:
    lite = LiteRt(to_bytes(programs.dense()), delegates=delegates)
    for batch in (1, 4, 2, 64, 1):
        x = draw(batch, 8)
        found = lite.run(KEY, {"x0": x})
        for i, wanted in enumerate(programs.dense_reference(x)):
            assert found[f"y{i}"].shape == wanted.shape
            np.testing.assert_allclose(found[f"y{i}"], wanted, rtol=0, atol=TOLERANCE)


@both_kernels
@pytest.mark.parametrize(("a", "b"), [(1, 1), (0, 5), (40, 1), (-3, 4)])
def test_a_loop(a: int, b: int, delegates: bool) -> None:
    lite = LiteRt(to_bytes(programs.loop()), delegates=delegates)
    for batch in (1, 3, 2):
        x = draw(batch, 3)
        found = lite.run(KEY, {"x0": np.array(a, np.int32), "x1": np.array(b, np.int32), "x2": x})
        wanted = programs.loop_reference(a, b, x)
        assert [int(found["y0"]), int(found["y1"])] == list(wanted[:2])
        np.testing.assert_array_equal(found["y2"], wanted[2])


@both_kernels
def test_branches(delegates: bool) -> None:
    lite = LiteRt(to_bytes(programs.branches()), delegates=delegates)
    for flag in (True, False, True):
        x = draw(2)
        found = lite.run(KEY, {"x0": np.array(flag), "x1": x})
        np.testing.assert_array_equal(found["y0"], x + 1 if flag else x)
        assert float(found["y1"]) == 3


@both_kernels
def test_strings(delegates: bool) -> None:
    def main(x: Any) -> Any:
        return ops.gather(x, np.array([2, 0], np.int32), axis=0), ops.equal(x, np.array([b"b"], object))

    lite = LiteRt(to_bytes(program(main, TensorType((3,), DType.string))), delegates=delegates)
    found = lite.run(KEY, {"x0": np.array([b"a", b"b", b"\xff\0c"], object)})
    assert found["y0"].tolist() == [b"\xff\0c", b"a"]
    assert found["y1"].tolist() == [False, True, False]


@both_kernels
@pytest.mark.parametrize("text", [b"a", b"", b"\xff\0"])
def test_a_single_text(delegates: bool, text: bytes) -> None:
    """Of which LiteRT's Python takes a Python object's address for the text."""
    main = program(lambda x: (ops.reshape(x, [1]), ops.reshape(x, np.zeros(0, np.int32))), TensorType((), DType.string))
    found = LiteRt(to_bytes(main), delegates=delegates).run(KEY, {"x0": np.array(text, object)})
    assert found["y0"].tolist() == [text]
    assert found["y1"].dtype == object
    assert found["y1"][()] == text


@both_kernels
def test_a_recurrent_op_starts_anew_on_every_invoke(delegates: bool) -> None:
    source = programs.lstm(units=32)
    lite = LiteRt(to_bytes(source), delegates=delegates)
    for batch in (1, 5, 5, 2):
        x = draw(batch, 6, 3)
        found = lite.run(KEY, {"x0": x})
        for name, wanted in zip(("y0", "y1"), evaluate(source.signatures[0].graph, [x]), strict=True):
            np.testing.assert_allclose(found[name], wanted, rtol=0, atol=TOLERANCE)


def test_signatures_by_name() -> None:
    one = programs.dense().signatures[0]
    lite = LiteRt(to_bytes(Program((one,))))
    assert lite.signatures() == {KEY: (("x0",), ("y0", "y1", "y2"))}


def test_results_are_copies() -> None:
    lite = LiteRt(to_bytes(programs.dense()))
    x = draw(2, 8)
    first = lite.run(KEY, {"x0": x})
    kept = first["y0"].copy()
    lite.run(KEY, {"x0": -x})
    np.testing.assert_array_equal(first["y0"], kept)


def test_every_operator_s_result() -> None:
    source = programs.lstm()
    x = draw(2, 6, 3)
    (signature,) = source.signatures
    wanted: dict[Var, np.ndarray] = {}
    evaluate(signature.graph, [x], lambda eqn, results: wanted.update(zip(eqn.outputs, results, strict=True)))
    _, values = FileRun(to_bytes(source)).call(signature, {"x0": x})
    computed = [var for eqn in signature.graph.eqns for var in eqn.outputs]
    for var in (v for v in computed if v in values.of):
        np.testing.assert_allclose(values.of[var], wanted[var], rtol=0, atol=TOLERANCE)
    overwritten = [eqn.outputs[0] for eqn in signature.graph.eqns if eqn.op is ops.tile]  # by the recurrent op since
    assert [var for var in computed if var not in values.of] == overwritten
    assert len(overwritten) == 2


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (lambda lite: lite.run("other", {}), "Invalid signature_key"),
        (lambda lite: lite.run(KEY, {"x": np.zeros((1, 8), np.float32)}), "Invalid Input name"),
        (
            lambda lite: lite.run(KEY, {"x0": np.zeros((1, 8), np.int32)}),
            "Got value of type INT32 but expected type FLOAT32",
        ),
        (lambda lite: lite.run(KEY, {"x0": np.zeros((1, 7), np.float32)}), "failed to prepare"),
    ],
)
def test_what_it_cannot_run(run: Callable[[LiteRt], Any], reason: str) -> None:
    with pytest.raises(VerifyFailed, match=f"LiteRT does not run the signature(.|\n)*{reason}"):
        run(LiteRt(to_bytes(programs.dense()), delegates=False))


def test_what_it_cannot_load() -> None:
    with pytest.raises(VerifyFailed, match="LiteRT does not load the file"):
        LiteRt(b"no model at all, but long enough to be looked at")


def test_what_is_computed_is_not_what_is_given() -> None:
    lite = LiteRt(to_bytes(program(lambda x: ops.mul(x, 2.0), f32(BATCH))))
    assert lite.run(KEY, {"x0": np.array([1, 2], np.float32)})["y0"].tolist() == [2, 4]
