"""Who may import whom: every module stands in a layer and imports only from lower ones, or from its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = {"jfuse": "jfuse", "lowering": "jfuse.lowering", "kernels": "jfuse.kernels"}  # folder: package

# From the bottom up. The name is the one after `jfuse.`; the package `jfuse` itself is "".
LAYERS = (
    {"errors"},
    {"ir"},
    {"kernels"},
    {"ops"},
    {"lowering"},
    {"explain", "export", "frontends", "passes", "quantization", "report", "running", "verification"},
    {"", "api", "cli", "compat", "coverage", "model", "parties", "reports", "verifying"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# Slow to import, and absent where only the core is used: imported by these modules alone, and only inside functions.
LAZY = {"keras", "tensorflow", "tf_keras"}
LAZY_USERS = ("jfuse.frontends.", "jfuse.verification.oracles", "jfuse.verification.tensorflow_values", "jfuse.compat")


@dataclass(frozen=True)
class Import:
    """One imported module, as found in the source."""

    module: str  # the importing module
    line: int
    target: str  # the imported module; of `from a import b` it is a.b where that is one of our modules, else a
    in_function: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def source_files() -> dict[str, Path]:
    """Module name -> file, through the real folders (not through the links in jfuse/)."""
    return {
        ".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts]).removesuffix(".__init__"): path
        for folder, package in ROOMS.items()
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.relative_to(ROOT).as_posix().startswith(("jfuse/kernels/", "jfuse/lowering/"))
    }


def statements(node: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The import statements below `node`, and whether each runs only when a function is called."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, in_function
        nested = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from statements(child, in_function or nested)


def targets(statement: ast.Import | ast.ImportFrom, modules: dict[str, Path]) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    source = "." * statement.level + (statement.module or "")
    for alias in statement.names:
        name = f"{source}.{alias.name}"
        yield name if name in modules else source


def imports_of(modules: dict[str, Path]) -> list[Import]:
    return [
        Import(module, statement.lineno, target, in_function)
        for module, path in modules.items()
        for statement, in_function in statements(ast.parse(path.read_text(encoding="utf-8")))
        for target in targets(statement, modules)
    ]


MODULES = source_files()
IMPORTS = imports_of(MODULES)


def layer_name(module: str) -> str:
    """jfuse.ir.graph -> ir; jfuse -> the empty name."""
    return module.split(".")[1] if "." in module else ""


def root_name(module: str) -> str:
    return module.split(".")[0]


def test_every_module_has_a_layer() -> None:
    assert {layer_name(module) for module in MODULES} <= LEVEL.keys()


def test_imports_go_down() -> None:
    ours = [i for i in IMPORTS if root_name(i.target) == "jfuse"]
    assert ours, "no import found"
    assert [str(i) for i in ours if LEVEL[layer_name(i.target)] > LEVEL[layer_name(i.module)]] == []


def test_imports_are_absolute_and_under_jfuse() -> None:
    assert [str(i) for i in IMPORTS if root_name(i.target) in {"", "kernels", "lowering"}] == []


def test_tensorflow_is_imported_only_where_it_is_read() -> None:
    lazy = [i for i in IMPORTS if root_name(i.target) in LAZY]
    assert [str(i) for i in lazy if not (i.in_function and i.module.startswith(LAZY_USERS))] == []


def test_functions_import_nothing_but_tensorflow() -> None:
    assert [str(i) for i in IMPORTS if i.in_function and root_name(i.target) not in LAZY] == []


def test_import_jfuse_leaves_tensorflow_out() -> None:
    program = f"import sys, jfuse; print(sorted({LAZY!r} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import jfuse.ir.graph", [("jfuse.ir.graph", False)]),
        ("from jfuse import ir", [("jfuse.ir", False)]),
        ("from jfuse.ir import Graph", [("jfuse.ir", False)]),
        ("from . import graph", [(".", False)]),
        ("def f():\n if f:\n  import keras", [("keras", True)]),
        ("class C:\n import keras", [("keras", False)]),
    ],
)
def test_statements_are_found(source: str, expected: list[tuple[str, bool]]) -> None:
    modules = {"jfuse.ir": ROOT, "jfuse.ir.graph": ROOT}
    found = [(t, inner) for s, inner in statements(ast.parse(source)) for t in targets(s, modules)]
    assert found == expected
