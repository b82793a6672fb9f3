"""Choices among values that tie: they are excused, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Const, Eqn, Graph, Program
from jfuse.model import Model
from jfuse.verification import verify
from jfuse.verification.ties import chooses
from tests.models.images import Detector

DETECTORS = ("combined", "mapped")


@pytest.fixture(autouse=True)
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a difference is excused is the question here, not where it begins."""
    monkeypatch.setattr(verify, "first_difference", lambda *_: None)


@pytest.fixture(scope="module")
def detectors() -> dict[str, tuple[Model, Model]]:
    """Detectors whose scores saturate: LiteRT's sigmoid gives the same number where TensorFlow's does not."""
    sources = Detector(classes=2).combined(None), Detector(classes=2).mapped()
    models = [jfuse.load(source) for source in sources]
    return {name: (jfuse.lower(model), model) for name, model in zip(DETECTORS, models, strict=True)}


@pytest.mark.parametrize("name", DETECTORS)
def test_detectors_with_saturated_scores_agree(detectors: dict[str, tuple[Model, Model]], name: str) -> None:
    lite, model = detectors[name]
    found = jfuse.verify(lite, reference=model, edges="none")
    assert found.passed
    assert any("values that tie within the tolerance were told apart differently" in note for note in found.notes)


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
    [("combined", threshold), ("combined", swapped), ("mapped", threshold), ("mapped", louder)],
)
def test_faults_are_no_ties(detectors: dict[str, tuple[Model, Model]], name: str, fault: Callable[[Eqn], Eqn]) -> None:
    lite, model = detectors[name]
    signatures = tuple(replace(s, graph=changed(s.graph, fault)) for s in lite.program.signatures)
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(Model(Program(signatures), lite.imported), reference=model, edges="none", shrink=0)


@pytest.mark.parametrize("fault", [threshold])
def test_faults_of_the_file_alone_are_no_ties(
    detectors: dict[str, tuple[Model, Model]], fault: Callable[[Eqn], Eqn]
) -> None:
    """As where LiteRT computes something else than the graph says."""
    lite, _ = detectors["mapped"]
    signatures = tuple(replace(s, graph=changed(s.graph, fault)) for s in lite.program.signatures)
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(Model(Program(signatures)), lite, edges="none", shrink=0)


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
    assert any("told apart differently" in note for note in found.report.notes)
    other = tf.function(lambda x: tf.cast(tf.sigmoid(x * 4.0) < 0.999, tf.float32), input_signature=[spec])
    with pytest.raises(jfuse.VerifyFailed):
        jfuse.verify(found, other, shrink=0)
