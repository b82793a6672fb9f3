"""The names of layers, from the scopes of their nodes and the paths of their variables."""

from __future__ import annotations

import pytest

from jfuse.ir.graph import Source
from jfuse.passes.states.layers import Layers

FUNCTIONAL = ["lstm/lstm_cell/kernel", "lstm_1/lstm_cell/kernel", "dense/kernel"]


@pytest.mark.parametrize(
    ("node", "name"),
    [
        ("sequential/lstm/while", "lstm"),
        ("model/encoder/PartitionedCall_1", "encoder"),
        ("model/gru/StatefulPartitionedCall/while", "gru"),
        ("model/encoder/lstm_cell_2", "encoder"),
        ("model/memory_cell/while", "memory_cell"),
        ("while", "while"),
        ("while_1", "while_1"),
        ("scan/while", "scan"),
        ("", "state"),
    ],
)
def test_loops_and_functions_name_no_layer(node: str, name: str) -> None:
    source = Source(node)
    assert Layers.of([source], []).name(source) == name


@pytest.mark.parametrize(
    ("scopes", "variables", "names"),
    [
        (["model_1/lstm_1/while", "model_1/lstm_1_1/while"], FUNCTIONAL, ["lstm", "lstm_1"]),
        (["model/lstm/while", "model/lstm_1/while"], FUNCTIONAL, ["lstm", "lstm_1"]),
        (["model_1/lstm_1/while"], ["model/lstm/cell/kernel"], ["lstm"]),
        (["model/lstm_1/while"], ["model/lstm_1/cell/kernel"], ["lstm_1"]),
        (["a_1/twice_1/while", "a_1/twice_2/while"], ["a/twice/cell/kernel"], ["twice", "twice"]),
        (["f/loop_1/while"], ["weights"], ["loop_1"]),
    ],
    ids=["keras", "tf_keras", "one-keras", "one-tf_keras", "called-twice", "no-layers"],
)
def test_scopes_that_count_calls_lose_that_number(scopes: list[str], variables: list[str], names: list[str]) -> None:
    sources = [Source(scope) for scope in scopes]
    layers = Layers.of(sources, variables)
    assert [layers.name(source) for source in sources] == names
