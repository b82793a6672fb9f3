"""Choices among values that tie: they are excused, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.graph import Const, Eqn, Graph, Program
from jfuse.model import Model
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.verification import failures
from jfuse.verification.compare.ties import chooses
from jfuse.verification.options import Verify
from jfuse.verification.runners.in_litert import InLiteRt
from jfuse.verification.runners.on_xla import OnXla
from jfuse.verification.sides import Sides
from jfuse.verification.verify import verify_sides
from tests.models.images import Detector
from tests.slow import slow_but

DETECTORS = ("combined", "mapped")


@pytest.fixture(autouse=True)
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a difference is excused is the question here, not where it begins."""
    monkeypatch.setattr(failures, "first_difference", lambda *_: None)


@pytest.fixture(scope="module")
def detectors() -> dict[str, tuple[Model, Model]]:
    """Detectors whose scores saturate: LiteRT's sigmoid gives the same number where TensorFlow's does not."""
    sources = Detector(classes=2).combined(None), Detector(classes=2).mapped()
    models = [jfuse.load(source) for source in sources]
    return {name: (jfuse.lower(model), model) for name, model in zip(DETECTORS, models, strict=True)}


@pytest.mark.parametrize("name", slow_but(lambda name: False, DETECTORS))
def test_detectors_with_saturated_scores_agree(detectors: dict[str, tuple[Model, Model]], name: str) -> None:
    lite, model = detectors[name]
    found = jfuse.verify(lite, model, edges="none")
    assert found.passed
    assert any("ties within the tolerance were broken differently" in note for note in found.notes)


def threshold(eqn: Eqn) -> Eqn:
    """Another threshold for how much boxes may overlap."""
    if not eqn.op.name.startswith("non_max_suppression"):
        return eqn
    return replace(eqn, inputs=(*eqn.inputs[:3], Const(np.array(0.1, np.float32)), *eqn.inputs[4:]))


def swapped(eqn: Eqn) -> Eqn:
    """The corners of boxes the other way round."""
    return replace(eqn, inputs=eqn.inputs[::-1]) if eqn.source.node == "concat" else eqn


def louder(eqn: Eqn) -> Eqn:
    """Scores of other features."""
    if eqn.source.node != "Conv2D_2":
        return eqn
    weights = eqn.inputs[1]
    assert isinstance(weights, Const)
    return replace(eqn, inputs=(eqn.inputs[0], Const(np.ascontiguousarray(weights.array[::-1])), *eqn.inputs[2:]))


def changed(graph: Graph, change: Callable[[Eqn], Eqn]) -> Graph:
    eqns = (replace(e, bodies=tuple(changed(b, change) for b in e.bodies)) for e in graph.eqns)
    return replace(graph, eqns=tuple(map(change, eqns)))


@pytest.mark.parametrize(
    ("name", "fault"),
    slow_but(
        lambda row: row != ("combined", threshold),  # its threshold is that of the other
        [("combined", threshold), ("combined", swapped), ("mapped", threshold), ("mapped", louder)],
    ),
)
def test_faults_are_no_ties(detectors: dict[str, tuple[Model, Model]], name: str, fault: Callable[[Eqn], Eqn]) -> None:
    lite, model = detectors[name]
    signatures = tuple(replace(s, graph=changed(s.graph, fault)) for s in lite.program.signatures)
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(Model(Program(signatures), lite.imported), model, jfuse.Verify(shrink=0), edges="none")


@pytest.mark.parametrize("fault", [threshold])
def test_faults_of_the_file_alone_are_no_ties(
    detectors: dict[str, tuple[Model, Model]], fault: Callable[[Eqn], Eqn]
) -> None:
    """As where LiteRT computes something else than the graph says."""
    lite, _ = detectors["mapped"]
    signatures = tuple(replace(s, graph=changed(s.graph, fault)) for s in lite.program.signatures)
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(Model(Program(signatures)), lite, jfuse.Verify(shrink=0), edges="none")


def test_what_chooses(detectors: dict[str, tuple[Model, Model]]) -> None:
    (signature,) = detectors["mapped"][0].program.signatures
    choosing = {eqn.op.name for eqn in signature.graph.eqns if chooses(eqn)}
    assert choosing == {"topk_v2", "greater", "equal", "cast", "while"}


def test_comparisons_are_told_apart_by_roundings() -> None:
    """LiteRT's sigmoid is 1 where TensorFlow's is the last number before it."""
    import tensorflow as tf

    spec = tf.TensorSpec([4, 64], tf.float32, name="x")
    model = tf.function(lambda x: tf.cast(tf.sigmoid(x * 4.0) < 1.0, tf.float32), input_signature=[spec])
    found = jfuse.convert(model)
    assert any("broken differently" in note for note in found.report.notes)
    other = tf.function(lambda x: tf.cast(tf.sigmoid(x * 4.0) < 0.999, tf.float32), input_signature=[spec])
    with pytest.raises(jfuse.VerifyFailed):
        jfuse.verify(found, other, jfuse.Verify(shrink=0))


def counting(least: float, gain: float = 1.0) -> Any:
    """Counts how often a sigmoid is below a number, in a variable that the answer depends on in the next call."""
    import tensorflow as tf

    class Counting(tf.Module):
        def __init__(self) -> None:
            self.count = tf.Variable(tf.ones([4]), name="count")

        @tf.function(input_signature=[tf.TensorSpec([4, 64], tf.float32, name="x")], autograph=False)
        def __call__(self, x: Any) -> Any:
            below = tf.cast(tf.sigmoid(x * 4.0) < least, tf.float32)
            before = self.count.read_value()
            self.count.assign_add(tf.reduce_sum(below, 1) * gain)
            return before[:, None] * x

    return Counting()


@pytest.mark.parametrize("state", ["source", "io"])
def test_ties_that_a_state_keeps(state: Any) -> None:
    """The state goes on otherwise from the tie on: every later call is computed from what the other side kept."""
    source = counting(1.0)
    found = jfuse.convert(source.__call__, state=state, verify=False)
    x = np.random.default_rng(0).standard_normal((3, 4, 64)).astype(np.float32) * 4
    notes = jfuse.verify(found, source.__call__, inputs=list(x)).notes
    assert any("broken differently" in note for note in notes)
    if state == "io":  # only first answers are compared with the source's, and these do not depend on the variable
        return
    for other in (counting(0.999), counting(1.0, gain=1.01)):
        with pytest.raises(jfuse.VerifyFailed, match="differs"):
            jfuse.verify(found, other.__call__, jfuse.Verify(shrink=0), inputs=list(x))


def test_a_state_that_is_wrong_is_no_tie() -> None:
    """XLA and LiteRT part: the file forgets what it kept."""
    module = counting(1.0)
    source = jfuse.load(module.__call__)
    lite = jfuse.lower(source)
    (signature,) = lite.program.signatures
    graph = signature.graph
    kept = replace(graph, outputs=(*graph.outputs[:-1], graph.inputs[-1]))
    data = Model(Program((replace(signature, graph=prepare_outputs(kept, states=1)),))).to_bytes()
    sides = replace(Sides.of_model(lite, source), data=data, subjects=(OnXla(lite), InLiteRt(data, lite.program)))
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        verify_sides(sides, Verify(calls=3, edges="none", shrink=0))


def test_a_source_with_other_names_is_asked_by_its_own() -> None:
    """The file's input is `x`, the source's `frames`; 1 and the number next to it are told apart or not."""
    one = np.float32(1)

    def source(above: np.float32, name: str) -> Any:
        spec = tf.TensorSpec([None, 2], name=name)
        return tf.function(lambda frames: tf.argmax(tf.sigmoid(frames) * above, 1), input_signature=[spec])

    file = jfuse.convert(source(one, "x"), verify=False).to_bytes()
    jfuse.verify(file, source(one, "frames"), edges="none")
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(file, source(-one, "frames"), edges="none")


ORDER = np.random.default_rng(1).permutation(16)
KERNEL = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)


def summed_twice(x: Any) -> Any:
    """The same products, summed in two orders: which is greater is rounding.   f32[b, 16] -> f32[b, 8, 2]"""
    return jnp.stack([x @ KERNEL, x[:, ORDER] @ KERNEL[ORDER]], -1)


CHOICES: dict[str, Callable[[Any], Any]] = {
    "places": lambda x: jnp.argmax(summed_twice(x), -1),
    "order": lambda x: jnp.argsort(summed_twice(x), -1),
    "greatest": lambda x: jax.lax.top_k(summed_twice(x), 1)[1],
    "comparisons": lambda x: summed_twice(x)[..., 0] > summed_twice(x)[..., 1],
}


@pytest.mark.parametrize("name", CHOICES)
def test_ties_of_functions_of_jax(name: str) -> None:
    spec = jax.ShapeDtypeStruct((4, 16), jnp.float32)
    found = jfuse.convert(CHOICES[name], [spec])
    assert any("broken differently" in note for note in found.report.notes)
    other = jfuse.convert(lambda x: CHOICES[name](x + 0.1 * jnp.sign(x - 1)), [spec], verify=False)
    with pytest.raises(jfuse.VerifyFailed):
        jfuse.verify(other, jfuse.load(CHOICES[name], [spec]), jfuse.Verify(shrink=0))


def texts(sign: float) -> Any:
    """The most probable texts of scores f32[t,2,5], of which all are alike where the scores are zeros."""

    def found(scores: Any) -> dict[str, Any]:
        lengths = tf.fill([2], tf.shape(scores)[0])
        ids, chances = tf.nn.ctc_beam_search_decoder(scores * sign, lengths, 6, 3)
        return {"chances": chances} | {f"text{i}": tf.sparse.to_dense(text, -1) for i, text in enumerate(ids)}

    return tf.function(found, input_signature=[tf.TensorSpec([None, 2, 5], name="scores")], autograph=False)


def test_ties_in_a_loop_are_told_by_what_is_beside_them() -> None:
    found = jfuse.convert(texts(1.0))
    assert "inputs of zeros: ties in a loop were broken differently" in found.report.notes
    zeros = np.zeros((1, 2, 5), np.float32)
    with pytest.raises(jfuse.VerifyFailed, match="differs"):  # of the user's own inputs the answer is asked
        jfuse.verify(found, texts(1.0), jfuse.Verify(shrink=0), inputs=[zeros])
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(found, texts(-1.0), jfuse.Verify(shrink=0))


def halved(instead_of_zero: float) -> Any:
    """x f32[4] halved until it is small, where elements of exactly 0 count as another number."""

    def found(x: Any) -> Any:
        x = tf.where(x == 0.0, instead_of_zero, x)
        step = lambda y: (tf.where(y == 0.0, instead_of_zero, y) * 0.5,)  # noqa: E731
        return tf.while_loop(lambda y: tf.reduce_max(tf.abs(y)) > 0.01, step, [x])[0]

    return tf.function(found, input_signature=[tf.TensorSpec([4], name="x")], autograph=False)


def test_a_loop_that_means_one_number_has_no_ties() -> None:
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(jfuse.convert(halved(0.0)), halved(3.0), jfuse.Verify(shrink=0))
