"""Errors that LiteRT makes with its delegate alone are laid to it, at the operator that it gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import VerifyFailed
from jfuse.ir.graph import Program
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.write.file import to_bytes
from jfuse.verification.locate import delegated
from jfuse.verification.locate.bisect import FailedCall, first_difference
from jfuse.verification.locate.delegated import DelegateCall
from jfuse.verification.locate.file_values import FileRun
from jfuse.verification.runners import in_litert
from tests.slow import slow_but
from tests.verification.locate.faults import Change, becomes, broken, constant, options, swapped
from tests.verification.locate.test_faults import HEALTHY, Held, healthy

FAULTS: list[tuple[str, str, Change]] = [
    ("cnn", "block/act/LeakyRelu", options(alpha=0.2)),
    ("cnn", "head/dense/MatMul", constant(1, lambda a: a.T)),
    ("lstm", "rnn/concat", swapped(0, 1)),
    ("transformer", "block/Gelu", options(approximate=True)),
    ("transformer", "block/norm/gain", constant(1, lambda a: np.roll(a, 1))),
    ("image", "turn/ReverseV2", constant(1, lambda a: a - 1)),
    ("deep", "layer3/MatMul", constant(1, lambda a: a * (1 + 1e-4))),
]
each_fault = pytest.mark.parametrize(("model", "node", "change"), FAULTS, ids=[node for _, node, _ in FAULTS])


def erring(monkeypatch: pytest.MonkeyPatch, wrong: bytes, right: bytes, most: int | None = None) -> None:
    """Let LiteRT with its delegate compute what another file says; without it this one.

    most: of outputs; with more of them the delegate errs no more.
    """

    class Shown(FileRun):
        def showing(self, signature: Any, numbers: Any) -> Any:
            errs = most is None or len(numbers) <= most
            return FileRun(wrong if errs else right).showing(signature, numbers)

    monkeypatch.setattr(delegated, "FileRun", Shown)
    monkeypatch.setattr(delegated, "LiteRt", lambda data: LiteRt(wrong if data == right else data, delegates=False))


@each_fault
def test_an_operator_that_the_delegate_gets_wrong_is_found(
    model: str, node: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, data, inputs, _ = healthy(model)
    erring(monkeypatch, to_bytes(broken(program, node, change)), data)
    found = first_difference(Held(program), Held(program), FailedCall("main", inputs), "xla/litert", data)
    assert found is not None
    assert (found.source, found.first, found.delegate, found.together) == (node, "", "XNNPACK", False)
    assert found.place.endswith("in XNNPACK")
    assert "with XNNPACK alone: LiteRT's own kernels agree with XLA" in found.detail


@each_fault
def test_operators_that_it_gets_wrong_together_are_found(
    model: str, node: str, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where their results between are outputs it runs them one by one, and all is right."""
    program, data, inputs, _ = healthy(model)
    erring(monkeypatch, to_bytes(broken(program, node, change)), data, most=1)
    found = first_difference(Held(program), Held(program), FailedCall("main", inputs), "xla/litert", data)
    assert found is not None
    assert (found.source, found.first, found.delegate, found.together) == (node, "", "XNNPACK", True)
    assert "alone, where that runs it with operators before it as one" in found.detail


@pytest.mark.parametrize("name", slow_but(("lstm", "transformer", "deep").__contains__, HEALTHY[:-1]))
def test_nothing_is_laid_to_it_that_rounding_explains(name: str) -> None:
    program, data, inputs, _ = healthy(name)
    assert first_difference(Held(program), Held(program), FailedCall("main", inputs), "xla/litert", data) is None
    assert DelegateCall(data, program.signatures[0], [*inputs.values()], inputs).blamed() is None


def test_its_own_rounding_of_integers_is_known() -> None:
    """XNNPACK rounds some integers to another step than the operators' own kernels, and integer bodies as it does."""
    program, _, inputs, _ = healthy("int8")
    (signature,) = program.signatures
    graph = replace(signature.graph, outputs=signature.graph.eqns[2].outputs, eqns=signature.graph.eqns[:3])
    cut_signature = replace(signature, graph=graph, output_names=("y",))
    cut = to_bytes(Program((cut_signature,)))
    one, other = (LiteRt(cut, delegates=d).run("main", inputs)["y"] for d in (True, False))
    assert np.abs(one.astype(int) - other).max() == 1
    assert DelegateCall(cut, cut_signature, [*inputs.values()], inputs).blamed() is None


def test_a_row_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    program, data, *_ = healthy("streaming")
    wrong = to_bytes(broken(program, "total/sum", becomes(ops.reduce_max, np.array([0], np.int32), keep=1)))
    erring(monkeypatch, wrong, data)
    (signature,) = program.signatures
    x = np.random.default_rng(5).standard_normal((3, 2, 3)).astype(np.float32)
    states = {s.name: s.initial.array for s in signature.states}
    found = first_difference(Held(program), Held(program), FailedCall("main", {"x0": x}, states), "xla/litert", data)
    assert found is not None
    assert (found.source, found.delegate) == ("total/sum", "XNNPACK")


def test_the_message_and_the_notes_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    program, data, *_ = healthy("cnn")
    wrong = to_bytes(broken(program, "head/act/Tanh", becomes(ops.logistic)))
    erring(monkeypatch, wrong, data)
    plain: Callable[..., LiteRt] = LiteRt
    monkeypatch.setattr(in_litert, "LiteRt", lambda data, **options: plain(wrong, delegates=False))
    with pytest.raises(jfuse.VerifyFailed, match=r"\(xla/litert\) at head/act/Tanh.* in XNNPACK") as failed:
        jfuse.verify(Model(program), edges="none", options=jfuse.Verify(shrink=0))
    assert "LiteRT errs with XNNPACK alone: its own kernels agree with XLA" in failed.value.verification.notes


def test_what_the_own_kernels_get_as_wrong_is_not_the_delegates() -> None:
    """LiteRT's ADD_N makes the largest float of an infinite sum, with the delegate and without it."""
    function = tf.function(lambda x, y, z: tf.add_n([x, y, z]), input_signature=[tf.TensorSpec([2])] * 3)
    lite = jfuse.convert(function)  # infinities are left out
    values = [np.array([1, np.inf], np.float32), np.ones(2, np.float32), np.ones(2, np.float32)]
    names = lite.signature().input_names
    with pytest.raises(VerifyFailed, match="differs") as caught:
        jfuse.verify(lite, function, inputs=[dict(zip(names, values, strict=True))])
    assert "XNNPACK" not in str(caught.value)
