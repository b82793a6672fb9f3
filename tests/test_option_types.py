"""Values of options that are of another type are refused by name, before anything is computed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse

FUNCTIONS = (
    jfuse.bench,
    jfuse.check,
    jfuse.convert,
    jfuse.diff,
    jfuse.load,
    jfuse.lower,
    jfuse.optimize,
    jfuse.quantize,
    jfuse.quantize_report,
    jfuse.tune,
    jfuse.verify,
)
WRONG: dict[str, tuple[Any, ...]] = {
    "bool": ("yes", "", 1, 0, 0.0, None, [True], np.ones(2, bool), object()),
    "OnStage": ("print", 5, None, [print]),
    "OnProgress": ("print", 5, None),
}


def stated() -> Iterator[tuple[Any, str, str]]:
    for function in FUNCTIONS:
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.annotation in WRONG:
                yield function, name, parameter.annotation


def test_truth_values_and_functions_are_nothing_else() -> None:
    found = list(stated())
    assert {kind for _, _, kind in found} == WRONG.keys()
    for function, name, kind in found:
        required = [p for p in inspect.signature(function).parameters.values() if p.kind < p.KEYWORD_ONLY]
        arguments = ["absent.tflite"] * sum(p.default is p.empty for p in required)
        for value in WRONG[kind]:
            with pytest.raises(jfuse.JfuseError, match=f"^{name}= (is True or False|takes a function)"):
                function(*arguments, **{name: value})


@pytest.fixture(scope="module")
def source() -> Any:
    spec = tf.TensorSpec([2, 3], tf.float32, name="x")
    return tf.function(tf.tanh, input_signature=[spec], autograph=False)


def test_numpy_has_truth_values_too(source: Any) -> None:
    off: Any = np.False_
    assert jfuse.load(source, unsafe=off).signature().input_names == ("x",)


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (lambda s, **o: jfuse.load(s, jfuse.Inputs(**o)), {"shapes": "x"}, "shapes= takes a mapping"),
        (lambda s, **o: jfuse.load(s, jfuse.Inputs(**o)), {"shapes": []}, "shapes= takes a mapping"),
        (
            lambda s, **o: jfuse.convert(s, pipeline=jfuse.Pipeline(**o)),
            {"custom_ops": "Erf"},
            "custom_ops= takes names of ops",
        ),
        (jfuse.convert, {"verify": 5}, "verify= is True or False"),
        (jfuse.convert, {"forms": {"loop": "while"}}, "forms= takes jfuse.Forms"),
        (lambda s, **o: jfuse.convert(s, verify=jfuse.Verify(**o)), {"inputs": 5}, "inputs= takes inputs"),
        (
            lambda s, **o: jfuse.convert(s, verify=jfuse.Verify(**o)),
            {"tolerance": {"z": 1e-3}},
            "tolerance= has no output 'z'",
        ),
        (lambda s, **o: jfuse.lower(s, forms=jfuse.Forms(**o)), {"by_source": "fused"}, "by_source= takes a mapping"),
        (lambda s, **o: jfuse.lower(jfuse.load(s), **o), {"forms": "fused"}, "forms= takes jfuse.Forms"),
        (
            lambda s, **o: jfuse.lower(s, pipeline=jfuse.Pipeline(**o)),
            {"passes": "fuse"},
            "passes= takes several passes",
        ),
        (lambda s, **o: jfuse.lower(s, pipeline=jfuse.Pipeline(**o)), {"passes": (5,)}, "passes= takes passes"),
        (lambda s, **o: jfuse.quantize(s, "dynamic", **o), {"target": 5}, "target= takes a mapping"),
        (lambda s, **o: jfuse.optimize("absent.tflite", **o), {"target": 5}, "no target 5"),
    ],
)
def test_other_types(source: Any, function: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(jfuse.JfuseError, match=message) as found:
        function(source, **options)
    assert not isinstance(found.value, jfuse.InternalError)
