"""Escape sequences in names never reach a terminal: the text of a model and messages print them as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Program, Signature, Source
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.model import Model

EVIL = "a\x1b]0;title\x07\x9b31m"


def model() -> Model:
    def main(x: Any) -> Any:
        with at_source(Source(EVIL, "Add", (EVIL,))):
            return ops.add(x, x)

    graph = trace_graph(main, [TensorType((2,), DType.f32)])
    return Model(Program((Signature(EVIL, graph, (EVIL,), (EVIL,)),)))


def test_text_is_printable() -> None:
    text = str(model())
    assert "]0;title" in text
    assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize("field", ["where", "expected", "found", "remedy", "context"])
def test_messages_are_printable(field: str) -> None:
    text = str(JfuseError(EVIL, **{field: EVIL}))
    assert text.count("\\x1b]0;title") == 2
    assert all(line.isprintable() for line in text.splitlines())


def test_a_message_of_a_file_is_printable() -> None:
    with pytest.raises(JfuseError) as caught:
        model()(np.zeros(3, np.float32), np.zeros(3, np.float32))
    assert all(line.isprintable() for line in str(caught.value).splitlines())
