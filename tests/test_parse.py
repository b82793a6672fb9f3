"""`jfuse.parse` reads what `print(model)` prints: programs, of one graph or many, and graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.ir import constants_of
from jfuse.ir.graph import Graph
from tests.models import control, lists, other, tables
from tests.slow import every_other

MODELS: dict[str, Callable[[], Any]] = {
    **other.MODELS,
    "without_rule": other.without_rule,
    **{f"table_{name}": partial(tables.lookup, name, 3) for name in tables.TABLES},
    **{name: partial(getattr, row, "function") for name, row in {**control.MODELS, **lists.MODELS}.items()},
}


def read_back(model: jfuse.Model) -> jfuse.Model:
    text = str(model)
    found = jfuse.parse(text, consts=constants_of(model.program))
    assert isinstance(found, jfuse.Model)
    assert str(found) == text
    return found


@pytest.mark.parametrize("name", every_other(MODELS))
def test_models_read_back(name: str) -> None:
    model = jfuse.load(MODELS[name]())
    read_back(model)
    if name != "without_rule":
        lite = read_back(jfuse.lower(model))
        assert lite.to_bytes()  # what is read back is written as a file


def test_states_and_files_read_back() -> None:
    lite = read_back(jfuse.lower(jfuse.load(other.stateful_lstm())))
    shape = [int(d) for d in lite.signature().graph.inputs[0].type.shape]
    x = np.full(shape, 0.5, np.float32)
    stream = lite.stream()
    first, second = stream(x), stream(x)
    assert not np.array_equal(first, second)


def test_the_text_of_one_graph_is_a_graph() -> None:
    graph = jfuse.parse("graph main(a: f32[2]) {\n  b: f32[2] = neg a\n  return b\n}")
    assert isinstance(graph, Graph)
    assert [eqn.op.name for eqn in graph.eqns] == ["neg"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1"),
        ("program {\n  graph 3", "line 2, column 9"),
        ("# text\nprogram", "'{'"),
        ("programs", "this is not the text of a graph"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(JfuseError, match=message):
        jfuse.parse(text)
