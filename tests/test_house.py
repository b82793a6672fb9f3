"""Figures of the house, which only get better: `pytest -s tests/test_house.py` prints them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import jfuse
from jfuse.base.options import OBJECTS, texts_of

ROOT = Path(__file__).parents[1]
MOST_PARAMETERS = 12
KINDS = {kind.__name__: kind for kind in (jfuse.Forms, jfuse.Inputs, jfuse.Limits, jfuse.Pipeline, jfuse.Verify)}
_COMMANDS = "app.command"  # functions with a parameter for each flag


def functions() -> Iterator[tuple[str, int]]:
    """The place of each function outside `kernels`, commands and flags apart, and how many parameters it has."""
    folders = ("jfuse", "lowering", "bench", "tests", "examples")
    for path in sorted(p for folder in folders for p in (ROOT / folder).rglob("*.py")):
        if (ROOT / "kernels").resolve() in path.resolve().parents:
            continue  # options of an op are its parameters
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            decorators = getattr(node, "decorator_list", [])
            if not any(ast.unparse(decorator).startswith(_COMMANDS) for decorator in decorators):
                taken = node.args
                count = len([*taken.posonlyargs, *taken.args, *taken.kwonlyargs])
                yield f"{path.relative_to(ROOT)}:{node.lineno}", count


def test_functions_have_few_parameters() -> None:
    counts = dict(functions())
    print(f"functions: {len(counts):,}; most parameters: {max(counts.values())}, at most {MOST_PARAMETERS}")
    assert {place: count for place, count in counts.items() if count > MOST_PARAMETERS} == {}


def test_each_option_stands_in_one_object_with_its_text() -> None:
    texts = [(field.name, text.text) for kind in KINDS.values() for field, text in texts_of(kind)]
    names = Counter(name for name, _ in texts)
    print(f"options: {len(texts)} in {len(KINDS)} objects")
    assert OBJECTS == KINDS, "what errors about unknown keywords know"
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name, text in texts if not text] == []


def test_a_field_may_be_a_keyword_of_a_function_that_takes_its_object() -> None:
    x = jfuse.ir.TensorType((2,), jfuse.ir.DType.f32)
    graph = jfuse.ir.trace_graph(jfuse.ops.tanh, [x])
    seen: list[str] = []
    result = jfuse.convert(graph, samples=np.ones(2, np.float32), calls=2, on_stage=seen.append)  # type: ignore[call-arg]
    assert "verify" in seen
    assert result.verification is not None
    with pytest.raises(jfuse.JfuseError, match="does not fit"):
        jfuse.convert(graph, samples=np.ones(3, np.float32))  # type: ignore[call-arg]
    with pytest.raises(jfuse.JfuseError, match="no precision 'half'"):
        jfuse.lower(graph, precision="half")  # type: ignore[call-arg]
    with pytest.raises(jfuse.JfuseError, match=r"calls= needs verify=True\n.*verify=False"):
        jfuse.convert(graph, verify=False, calls=2)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: jfuse.convert("absent", paddin="right"), r"forms=jfuse\.Forms\(padding=…\)"),  # type: ignore[call-arg]
        (lambda: jfuse.convert("absent", quantise="int8"), "quantize=…"),  # type: ignore[call-arg]
        (lambda: jfuse.Forms(prefr="speed"), "prefer=…"),  # type: ignore[call-arg]
        (lambda: jfuse.verify("a", call=1), r"options=jfuse\.Verify\(calls=…\)"),  # type: ignore[call-arg]
        (lambda: jfuse.load("absent", loop="while"), r"a function that takes jfuse\.Forms"),  # type: ignore[call-arg]
    ],
)
def test_a_misspelt_option_says_which_was_meant(call: object, remedy: str) -> None:
    with pytest.raises(jfuse.UnknownOption, match=rf"try +{remedy}"):
        call()  # type: ignore[operator]


def test_a_keyword_goes_before_the_field() -> None:
    forms = jfuse.Forms(target="tflite-micro", state="reset")
    made = jfuse.lower(
        jfuse.ir.trace_graph(jfuse.ops.tanh, [jfuse.ir.TensorType((2,), jfuse.ir.DType.f32)]), forms=forms
    )
    assert list(made.report.operators) == ["tanh"]
    with pytest.raises(jfuse.JfuseError, match="no state 'other'"):
        jfuse.lower(made, forms=forms, state="other")  # type: ignore[arg-type]
