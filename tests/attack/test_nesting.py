"""Loops and branches in each other: work grows as their number does, and no depth ends in a foreign error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from textwrap import indent
from typing import Any

import numpy as np
import pytest

import jfuse
from bench.scale import calls
from jfuse.running.interpreter import LiteRt
from tests.tflite.programs import KEY

X = np.array([2.0, 4.0], np.float32)


def branch(inside: str) -> str:
    return f"""b: f32[] = sum a i32[1](0)
c: bool[] = greater b 1.0
d: f32[2] = if c a
{_graph("deeper(a: f32[2])", inside)}
{_graph("ends(a: f32[2])", "e: f32[2] = sub a 1.0", "e")}"""


def loop(inside: str) -> str:
    return f"""b: i32[], d: f32[2] = while 0 a
{_graph("cond(a: i32[], b: f32[2])", "c: bool[] = less a 1000", "c")}
    graph body(i: i32[], a: f32[2]) {{
      n: i32[] = add i 1
{indent(inside, "      ")}
      return n, d
    }}"""


def one_turn(inside: str) -> str:
    return loop(inside).replace("less a 1000", "less a 1")


def _graph(head: str, inside: str, result: str = "d") -> str:
    return f"    graph {head} {{\n{indent(inside, '      ')}\n      return {result}\n    }}"


def nest(level: Callable[[str], str], depth: int) -> jfuse.Model:
    text = "d: f32[2] = mul a 1.5"
    for _ in range(depth):
        text = level(text)
    inner = indent(text, "    ")
    found = jfuse.parse(
        f'program {{\n  signature "{KEY}"("x") -> ("y") = graph 0\n'
        f"  graph main(a: f32[2]) {{\n{inner}\n    return d\n  }}\n}}"
    )
    assert isinstance(found, jfuse.Model)
    return found


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions of Python are called."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("level", [branch, loop])
def test_lowering_is_linear_in_the_depth(level: Callable[[str], str]) -> None:
    jfuse.lower(nest(level, 2))  # what is made once for a process
    short, long = (calls_of(partial(jfuse.lower, nest(level, depth))) for depth in (10, 40))
    assert long < 6 * short


@pytest.mark.parametrize(("level", "depth"), [(branch, 199), (one_turn, 60)])
def test_deep_nests_are_lowered(level: Callable[[str], str], depth: int) -> None:
    lite = jfuse.lower(nest(level, depth))
    np.testing.assert_array_equal(LiteRt(lite.to_bytes()).run(KEY, {"x": X})["y"], X * 1.5)
    assert jfuse.verify(lite).passed


def test_functions_that_call_each_other_need_no_deep_stack() -> None:
    depth = sys.getrecursionlimit() // 2
    graph_def, between = calls(depth)
    model = jfuse.convert(graph_def, verify=False, **between)
    x = np.linspace(-2, 2, 16, dtype=np.float32)
    wanted = x.astype(np.float64)
    for _ in range(depth + 1):
        wanted = np.tanh(wanted + 1)
    signature = model.signature()
    found = LiteRt(model.to_bytes()).run(signature.key, {signature.input_names[0]: x})
    np.testing.assert_allclose(found[signature.output_names[0]], np.tanh(wanted), rtol=1e-5)
