"""Figures of plain prose in the product's code. A figure here may be lowered, never raised."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_op_names import trees

MOST_WHAT = 15
"""Docstrings that begin with "What": they define a thing by a clause instead of naming it."""
MOST_FOUND = 200
"""Bindings of the name `found`: it says how a value came to hand, not what the value is."""


def docstrings(tree: ast.Module) -> Iterator[str]:
    """The docstrings of a module, its classes, functions, constants and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield str(statement.value.value)


def bindings(tree: ast.Module, name: str) -> int:
    """How often a module binds a name, as a variable or as a parameter."""
    variables = (n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    parameters = (n.arg for n in ast.walk(tree) if isinstance(n, ast.arg))
    return [*variables, *parameters].count(name)


def test_docstrings_name_a_thing_or_begin_with_a_verb() -> None:
    vague = [
        (module, text) for module, tree in trees().items() for text in docstrings(tree) if text.startswith("What ")
    ]
    assert len(vague) <= MOST_WHAT, vague


def test_variables_say_what_they_hold() -> None:
    assert sum(bindings(tree, "found") for tree in trees().values()) <= MOST_FOUND


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('"""What a module is."""', 1),
        ('LIMIT = 1\n"""What bounds a run."""', 1),
        ('class A:\n    """What one is."""\n    x: int\n    """What x is."""', 2),
        ('def f():\n    """Return what is asked."""', 0),
    ],
)
def test_docstrings_are_counted_wherever_they_stand(source: str, count: int) -> None:
    assert sum(text.startswith("What ") for text in docstrings(ast.parse(source))) == count


def test_each_kind_of_binding_is_counted() -> None:
    source = "def f(found):\n    found = g(found=found)\n    return [found for found in x]"
    assert bindings(ast.parse(source), "found") == 3
