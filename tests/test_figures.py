"""Figures that keep the code easy to read: short signatures, refusals with names, one meaning for a class name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.test_op_names import trees

MOST_PARAMETERS = 7
"""Of a function that no interface prescribes; what belongs together is a frozen dataclass."""
PRESCRIBED = {
    "jfuse.passes.own.rewrites": "the options of the decorator",
    "jfuse.kernels.core.op.tfl": "what an op declares, by keyword",
    "jfuse.kernels.fused.lstm_cell.lstm_cell": "the operands of TFLite's LSTMs by kind, and their options",
    "jfuse.lowering.from_torch.convolution._convolved": "the operands and options of a convolution of PyTorch",
}
MOST_WALKS = 9
"""Peephole rules that are no pattern, condition and replacement: each says in its decorator why none can say it."""

SAME_CLASSES = {
    "Loaded": "a file in one runtime: the worker imports the module of the runtime that it is for, and asks for this",
}
"""Names that classes of several modules have."""


def functions(tree: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """The functions of a module and the methods of its classes; what functions define inside is left out."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node)


def parameters(function: ast.FunctionDef) -> int:
    """How many parameters a function has, without the object or class of a method."""
    of = function.args
    return len([a for a in (*of.posonlyargs, *of.args, *of.kwonlyargs) if a.arg not in ("self", "cls")])


def searches(tree: ast.Module) -> Iterator[int]:
    """The lines that look for the equation that made a value: in all equations, or by a dictionary of their results."""
    for node in ast.walk(tree):
        if isinstance(node, ast.DictComp) and len(node.generators) == 2:
            eqns, results = node.generators
            is_outputs = isinstance(results.iter, ast.Attribute) and results.iter.attr == "outputs"
            pair = ast.dump(node.key) == _read(results.target), ast.dump(node.value) == _read(eqns.target)
            if is_outputs and all(pair):
                yield node.lineno
        elif isinstance(node, ast.GeneratorExp):
            tests = [test for generator in node.generators for test in generator.ifs]
            if any(_is_among_outputs(test) for test in tests):
                yield node.lineno


def _read(target: ast.expr) -> str:
    """A loop's variable as it is dumped where it is read."""
    return ast.dump(ast.Name(target.id, ast.Load())) if isinstance(target, ast.Name) else ""


def _is_among_outputs(test: ast.expr) -> bool:
    is_in = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In)
    place = test.comparators[0] if isinstance(test, ast.Compare) else None
    return is_in and isinstance(place, ast.Attribute) and place.attr == "outputs"


def decorators(function: ast.FunctionDef) -> set[str]:
    return {ast.unparse(d.func) for d in function.decorator_list if isinstance(d, ast.Call)}


def test_functions_take_few_parameters() -> None:
    """Ops, rules and commands have the operands and options of what they stand for: they are decorated."""
    found = {
        f"{module}.{function.name}": parameters(function)
        for module, tree in trees().items()
        for function in functions(tree)
        if not function.decorator_list
    }
    assert len(found) > 1000, "functions are not found"
    long = {name: count for name, count in found.items() if count > MOST_PARAMETERS}
    assert long.keys() == PRESCRIBED.keys(), long


def test_who_made_a_value_is_asked_in_one_place() -> None:
    found = {module for module, tree in trees().items() for _ in searches(tree)}
    assert found == {"jfuse.ir.walk"}, "ask jfuse.ir.walk.producers, or the producer of a trace, a view or a rewriting"


def test_searches_are_found() -> None:
    source = """
{var: eqn for eqn in graph.eqns for var in eqn.outputs}
next(e for e in graph.eqns if var in e.outputs)
{v: found[v] for e in graph.eqns for v in e.outputs}
[e for e in graph.eqns if var in graph.outputs]
"""
    assert list(searches(ast.parse(source))) == [2, 3]


def test_peephole_rules_refuse_by_name() -> None:
    rules = [f for m, tree in trees().items() if m.startswith("jfuse.lowering.peephole") for f in functions(tree)]
    patterns = [f for f in rules if "peephole" in decorators(f)]
    walks = [f for f in rules if "peephole_walk" in decorators(f)]
    assert len(patterns) > 50, "rules are not found"
    assert len(walks) <= MOST_WALKS, [f.name for f in walks]
    silent = [f.name for f in patterns for n in ast.walk(f) if isinstance(n, ast.Return) and is_none(n.value)]
    assert silent == [], "need(condition, name) says why a rule does not fire"


def is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def test_a_class_name_has_one_meaning() -> None:
    """Classes with a leading underscore belong to their module."""
    homes: dict[str, set[str]] = {}
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(module)
    assert len(homes) > 300, "classes are not found"
    assert {name: where for name, where in homes.items() if len(where) > 1}.keys() == SAME_CLASSES.keys()
