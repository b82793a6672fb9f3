"""Passes ask ops for what they declare: few files ask for an op by its name, or for the class of an op."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from jfuse.kernels import ops
from jfuse.kernels.core.op import TflOp
from jfuse.tflite.schema import BUILTIN_CODES
from tests.parsed import parsed
from tests.test_imports import MODULES

MOST_FILES = 28
"""Files outside kernels/, lowering/ and the room of the file format that may ask for an op by its name."""
RULES_BY_OP = {
    "jfuse.passes.legalize.copies_in_bodies",
    "jfuse.passes.outline.attention",
    "jfuse.passes.outline.norms",
    "jfuse.passes.scans.fission.vectorize",
    "jfuse.passes.scans.to_loops.known_bounds",
    "jfuse.passes.states.step_moves",
    "jfuse.passes.states.step_windows",
    "jfuse.proof.index_ranges",
    "jfuse.proof.ranges",
    "jfuse.verification.locate.inner_rounding",
}
"""Files that hold a rule for each op, or for each composite of a target, as those of lowering/ do.

What has no rule there has a safe default.
"""
TABLES_OF_OTHERS = (
    "jfuse.quantization.recipe_json",
    "jfuse.tflite.targets.conditions",
    "jfuse.tflite.targets.ethos_conditions",
    "jfuse.tflite.c_source",
)
MOST_FILES_OF_THE_FORMAT = 10
"""Files of jfuse/tflite that may, as a format is about builtins by name. The rows of the runtime are not counted."""
MOST_KIND_TESTS = 25
NAMES = {name for name, op in vars(ops).items() if isinstance(op, TflOp)}


def asked_names(tree: ast.Module) -> Iterator[str]:
    """The ops that a module asks for by name.

    Asking is to compare with `ops.x` or a builtin's name, to list either in a set, a table or a decorator. Calling
    `ops.x`, or handing it on to be called, is how a pass makes equations.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                asked = [node.left, *node.comparators]
            case ast.Set() | ast.List() | ast.Tuple():
                asked = node.elts
            case ast.Dict():
                asked = [key for key in node.keys if key is not None]
            case ast.FunctionDef():
                asked = [a for d in node.decorator_list if isinstance(d, ast.Call) for a in d.args]
            case _:
                continue
        yield from (name for value in asked if (name := _op_name(value)))


def _op_name(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if node.value in BUILTIN_CODES else ""
    is_op = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ops"
    return node.attr if is_op and isinstance(node, ast.Attribute) and node.attr in NAMES else ""


def kind_tests(tree: ast.Module) -> Iterator[int]:
    """The lines that ask for the class of an op, or whether it has an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            subject = node.args[0]
            is_op = getattr(subject, "attr", getattr(subject, "id", "")) == "op"
            if is_op and node.func.id in ("isinstance", "getattr", "hasattr"):
                yield node.lineno


OF_TERMS = "jfuse.proof.symbolic."
"""There `op` is what a term computes: a name, or a tuple of one and its numbers."""


def trees() -> dict[str, ast.Module]:
    """The parsed source of each module."""
    return {module: parsed(path) for module, path in MODULES.items()}


def asking(*, of_the_format: bool) -> dict[str, list[str]]:
    rooms = ("jfuse.kernels", "jfuse.lowering", "jfuse.tflite.runtime.rows", *TABLES_OF_OTHERS)
    found = {m: sorted(set(asked_names(t))) for m, t in trees().items() if not m.startswith(rooms)}
    return {m: names for m, names in found.items() if names and m.startswith("jfuse.tflite.") == of_the_format}


def test_few_files_ask_for_an_op_by_its_name() -> None:
    found = {m: names for m, names in asking(of_the_format=False).items() if m not in RULES_BY_OP}
    assert found
    assert len(found) <= MOST_FILES, found


def test_few_files_of_the_format_ask_for_an_op_by_its_name() -> None:
    found = asking(of_the_format=True)
    assert found
    assert len(found) <= MOST_FILES_OF_THE_FORMAT, found


def test_few_lines_ask_for_the_class_of_an_op() -> None:
    asked = {m: tree for m, tree in trees().items() if not m.startswith(OF_TERMS)}
    found = [f"{module}:{line}" for module, tree in asked.items() for line in kind_tests(tree)]
    assert found
    assert len(found) <= MOST_KIND_TESTS, found


def test_asking_is_told_from_making() -> None:
    source = """
MOVES = frozenset({ops.reshape, ops.squeeze})
TABLE = {ops.add: 1, "SUB": 2}
@rule(ops.abs_)
def f(eqn):
    if eqn.op is ops.mul or eqn.op.builtin == "DIV":
        return ops.neg(run(ops.exp, eqn))
"""
    assert sorted(asked_names(ast.parse(source))) == ["DIV", "SUB", "abs_", "add", "mul", "reshape", "squeeze"]


def test_kind_tests_are_found() -> None:
    source = "isinstance(eqn.op, A)\ngetattr(op, 'x', 0)\nisinstance(eqn, B)\nhasattr(e.op, 'y')"
    assert list(kind_tests(ast.parse(source))) == [1, 2, 4]


MOST_TABLES = 20
"""Tables of three ops or more at the top of modules outside kernels, rules and the rows of runtimes.

What they say is a fact of the op: its decorator in kernels/, or its row, says it once for all that ask.
"""
OF_A_TABLE = 3  # ops, as few as make one


def tables(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """The names at the top of a module whose values list ops, with these."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            ops_of_it = {name for inner in ast.walk(node.value) if (name := _named(inner))}
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if len(ops_of_it) >= OF_A_TABLE:
                yield ast.unparse(target), sorted(ops_of_it)


def _named(node: ast.AST) -> str:
    return _op_name(node) if isinstance(node, ast.expr) else ""


def test_few_tables_of_ops_stand_apart_from_the_ops() -> None:
    rooms = ("jfuse.kernels", "jfuse.lowering", "jfuse.tflite.runtime.rows", "jfuse.tflite.schema")
    found = [(m, name, ops_) for m, t in trees().items() if not m.startswith(rooms) for name, ops_ in tables(t)]
    assert found
    assert len(found) <= MOST_TABLES, "\n".join(f"{m}.{name}: {' '.join(ops_)}" for m, name, ops_ in found)


def test_tables_are_found() -> None:
    source = "A = {ops.add: f, ops.sub: f, 'MUL': f}\nB: Any = frozenset((ops.add, ops.sub))\nC = max(ops.add, ops.sub)"
    assert [name for name, _ in tables(ast.parse(source))] == ["A"]
