"""Faults are found where they are: at the equation that errs by itself, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from jfuse.base.measure import relative_error
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes
from jfuse.verification.locate.bisect import FailedCall, equation_errors, first_difference
from jfuse.verification.locate.named_values import recorded
from jfuse.verification.runners.node_values import Value
from tests.slow import every_other, slow_but
from tests.verification.locate import fault_models
from tests.verification.locate.faults import TABLE, Fault, broken, requantized
from tests.verification.locate.quantized_fault_model import int8

HEALTHY = ("cnn", "lstm", "gru", "transformer", "text", "image", "deep", "chaotic", "int8")
AWAKE = 1e-5  # what outputs may differ by for other reasons


@dataclass
class Held:
    """A program without a source."""

    program: Program
    imported: Any = None


@cache
def healthy(name: str) -> tuple[Program, bytes, dict[str, np.ndarray], list[Value]]:
    """A model, its file, inputs, and its results on XLA."""
    program = int8() if name == "int8" else getattr(fault_models, name)()
    signature = program.signatures[0]
    inputs = dict(zip(signature.input_names, map(_draw, signature.graph.inputs), strict=False))
    states = [s.initial.array for s in signature.states]
    return program, to_bytes(program), inputs, recorded(signature.graph, [*inputs.values(), *states])[1]


def _draw(var: Any) -> np.ndarray:
    generator = np.random.default_rng(len(var.shape))
    if var.dtype == np.int32:
        return np.asarray(generator.integers(0, 12, var.shape), np.int32)
    if var.shape == (1, 1, 8):
        return np.array([[[1, 1, 1, 0, 1, 1, 0, 0]]], np.float32)
    return np.asarray(generator.standard_normal(var.shape), np.float32)


def differs(found: Iterator[Value], wanted: list[Value]) -> bool:
    pairs = zip(found, wanted, strict=True)
    return any(relative_error(np.asarray(f), np.asarray(w)) > AWAKE for f, w in pairs)


@pytest.mark.parametrize("fault", every_other(TABLE), ids=str)
def test_a_fault_of_the_file_is_found(fault: Fault) -> None:
    """The bytes say something else than the graph: LiteRT differs from XLA."""
    program, _, inputs, wanted = healthy(fault.model)
    data = to_bytes(broken(program, fault.node, fault.change))
    assert differs(iter(LiteRt(data, delegates=False).run("main", inputs).values()), wanted)
    found = first_difference(Held(program), Held(program), FailedCall("main", inputs), "xla/litert", data)
    assert found is not None
    assert (found.source, found.steps[:1], found.first) == (fault.node, () if fault.step is None else (fault.step,), "")
    assert found.pair == "xla/litert"


@pytest.mark.parametrize("fault", every_other(TABLE), ids=str)
def test_a_fault_of_the_lowering_is_found(fault: Fault) -> None:
    """The graph is wrong, and with it XLA and the file alike: they differ from the source."""
    program, _, inputs, wanted = healthy(fault.model)
    wrong = broken(program, fault.node, fault.change)
    assert differs(iter(recorded(wrong.signatures[0].graph, [*inputs.values()])[1]), wanted)
    found = first_difference(
        Held(wrong), Held(program), FailedCall("main", inputs), "reference/litert", to_bytes(wrong)
    )
    assert found is not None
    assert (found.source, found.steps[:1], found.first) == (fault.node, () if fault.step is None else (fault.step,), "")
    assert found.pair == "reference/xla"


def test_a_scale_that_the_integers_do_not_tell_is_found() -> None:
    """The result of a RESHAPE has the same integers; what reads them takes them for other numbers."""
    program, _, inputs, _ = healthy("int8")
    wrong = broken(program, "head/Reshape", requantized(zero_point=20))
    call = FailedCall("main", inputs)
    for one, other, data in ((program, program, to_bytes(wrong)), (wrong, program, None)):
        found = first_difference(Held(one), Held(other), call, "xla/litert", data)
        assert found is not None
        assert found.op == "reshape"
        there = -20 if data is not None else -40
        assert (
            f"another quantization: the other side has {{scale=(0.05,) zero_point=({there},) axis=0}}" in found.detail
        )


KERNELS: list[tuple[str, str, Any, Callable[..., Any]]] = [
    ("transformer", "block/Softmax", ops.softmax, lambda x, beta=1.0: jnp.exp(x) / jnp.exp(x).sum(-2, keepdims=True)),
    (
        "transformer",
        "head/l2_normalize",
        ops.l2_normalization,
        lambda x, **_: x / jnp.sqrt((x * x).sum(-1) + 1)[..., None],
    ),
    ("transformer", "block/norm/Rsqrt", ops.rsqrt, lambda x: 1 / jnp.sqrt(x + 1e-4)),
    ("image", "pixels/HardSwish", ops.hard_swish, lambda x: x * jnp.clip(x / 6 + 0.5005, 0, 1)),
    ("image", "halves/split", ops.split, lambda axis, x, *, num_splits: tuple(jnp.split(x, num_splits, axis)[::-1])),
    ("image", "levels/Round", ops.round_, jnp.trunc),
    ("text", "rank/unstack", ops.unpack, lambda x, *, axis: tuple(jnp.roll(x, 1, axis))),
    ("cnn", "up/conv_transpose", ops.transpose_conv, lambda shape, w, x, b=None, **_: jnp.zeros(shape) + b),
    ("gru", "gru/while/cell/Sigmoid", ops.logistic, lambda x: 0.5 + 0.5 * jnp.tanh(0.5001 * x)),
    ("gru", "gru/while/write", ops.dynamic_update_slice, lambda x, row, place: x + 0 * row),
]


@pytest.mark.parametrize(("model", "node", "op", "body"), KERNELS, ids=[node for _, node, _, _ in KERNELS])
def test_a_fault_of_a_kernel_is_found(
    model: str, node: str, op: Any, body: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """XLA computes an op otherwise than LiteRT, on a graph and a file that are alike."""
    program, data, inputs, wanted = healthy(model)
    monkeypatch.setattr(op, "body", body)
    assert differs(iter(recorded(program.signatures[0].graph, [*inputs.values()])[1]), wanted)
    found = first_difference(Held(program), Held(program), FailedCall("main", inputs), "xla/litert", data)
    assert found is not None
    assert (found.source, found.first) == (node, "")


def _unwritten(signature: Signature) -> Signature:
    graph = signature.graph
    kept = next(i for i, s in enumerate(signature.states) if s.name == "total")
    outputs = list(graph.outputs)
    outputs[len(signature.output_names) + kept] = graph.inputs[len(signature.input_names) + kept]
    return replace(signature, graph=replace(graph, outputs=tuple(outputs)))


def _started_elsewhere(signature: Signature) -> Signature:
    moved = (replace(s, initial=Const(s.initial.array + (s.name == "total"))) for s in signature.states)
    return replace(signature, states=tuple(moved))


def _forgetful(signature: Signature) -> Signature:
    """The LSTM's states are zeros in each call."""
    graph = signature.graph

    def anew(*args: Any) -> Any:
        held = dict(zip((s.name for s in signature.states), args[len(signature.input_names) :], strict=True))
        kept = [ops.mul(held[n], np.float32(0)) if n in "hc" else held[n] for n in held]
        return evaluate(graph, [*args[: len(signature.input_names)], *kept])

    changed = trace_graph(anew, [v.type for v in graph.inputs])
    return replace(signature, graph=prepare_outputs(changed, states=len(signature.states)))


def _row(count: int) -> tuple[list[dict[str, np.ndarray]], list[dict[str, np.ndarray]]]:
    """Inputs of calls in a row, and the states before each."""
    program, *_ = healthy("streaming")
    (signature,) = program.signatures
    generator = np.random.default_rng(5)
    inputs, states = [], [{s.name: s.initial.array for s in signature.states}]
    for _ in range(count):
        inputs.append({"x0": generator.standard_normal((3, 2, 3)).astype(np.float32)})
        args = [*inputs[-1].values(), *(states[-1][s.name] for s in signature.states)]
        after = recorded(signature.graph, args)[1][len(signature.output_names) :]
        states.append({s.name: np.asarray(v) for s, v in zip(signature.states, after, strict=True)})
    return inputs, states


@pytest.mark.parametrize(
    ("change", "state", "number"),
    [(_unwritten, "total", 1), (_started_elsewhere, "total", 0)],
    ids=["stale", "initial"],
)
def test_a_state_that_the_file_gets_wrong_is_found(
    change: Callable[[Signature], Signature], state: str, number: int
) -> None:
    """Every operator is right, but a call starts from another state than the one before it left."""
    program, *_ = healthy("streaming")
    data = to_bytes(Program((change(program.signatures[0]),)))
    inputs, states = _row(3)
    call = FailedCall("main", inputs[2], states[2], tuple(("main", i) for i in inputs[:2]))
    found = first_difference(Held(program), Held(program), call, "xla/litert", data)
    assert found is not None
    assert (found.state, found.call, found.source) == (state, number, "total/AssignAdd")
    assert f"the state {state!r} lost its value between calls" in found.detail


def test_a_state_that_the_lowering_does_not_write_is_found() -> None:
    program, *_ = healthy("streaming")
    wrong = Program((_unwritten(program.signatures[0]),))
    inputs, states = _row(1)
    found = first_difference(
        Held(wrong), Held(program), FailedCall("main", inputs[0], states[0]), "reference/xla", None
    )
    assert found is not None
    assert (found.state, found.source) == ("total", "total/AssignAdd")


def test_states_that_start_anew_are_found_on_the_second_call() -> None:
    program, *_ = healthy("streaming")
    wrong = Program((_forgetful(program.signatures[0]),))
    inputs, states = _row(2)
    first, second = (FailedCall("main", inputs[i], states[i]) for i in range(2))
    assert first_difference(Held(wrong), Held(program), first, "reference/xla", None) is None
    found = first_difference(Held(wrong), Held(program), second, "reference/xla", None)
    assert found is not None
    assert (found.source, found.op) == ("rnn/lstm/while", "unidirectional_sequence_lstm")


def test_a_file_of_other_operators_is_compared_by_its_names() -> None:
    """The file has more operators than the program, so that they cannot be paired one by one."""
    program, *_ = healthy("streaming")
    data = to_bytes(Program((_forgetful(program.signatures[0]),)))
    inputs, states = _row(2)
    call = FailedCall("main", inputs[1], states[1], (("main", inputs[0]),))
    found = first_difference(Held(program), Held(program), call, "xla/litert", data)
    assert found is not None
    assert (found.source, found.op) == ("rnn/lstm/while", "unidirectional_sequence_lstm")


@pytest.mark.parametrize("name", slow_but(("cnn", "gru", "text", "image").__contains__, HEALTHY))
def test_nothing_is_wrong_with_healthy_models(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """However far rounding has grown, no equation is blamed."""
    program, data, inputs, _ = healthy(name)
    assert first_difference(Held(program), Held(program), FailedCall("main", inputs), "reference/litert", data) is None
    assert not [r for r in caplog.records if r.name == "jfuse"]  # the search went through
    assert equation_errors(Held(program), Held(program), FailedCall("main", inputs), data)
