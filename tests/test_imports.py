"""Who may import whom: every module stands in a room, and imports only from its own room and from those below."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.parsed import parsed

ROOT = Path(__file__).parent.parent
ROOMS = {"jfuse": "jfuse", "lowering": "jfuse.lowering", "kernels": "jfuse.kernels"}  # folder: package

ORDER = (
    "jfuse.base",
    "jfuse.ir",
    "jfuse.records",
    "jfuse.kernels.core",
    "jfuse.kernels",
    "jfuse.tf_nodes",
    "jfuse.opaque_ops",
    "jfuse.lowering.rules",
    "jfuse.lowering.rule_tools",
    "jfuse.lowering.ops",
    "jfuse.lowering.peephole",
    "jfuse.lowering.recover",
    "jfuse.lowering.composites",
    "jfuse.lowering.from_jax",
    "jfuse.lowering.from_torch",
    "jfuse.lowering",
    "jfuse.tflite.schema",
    "jfuse.tflite.runtime",
    "jfuse.tflite.targets",
    "jfuse.tflite",
    "jfuse.tflite.write",
    "jfuse.tflite.read",
    "jfuse.frontends.nan_weights",
    "jfuse.frontends.stablehlo",
    "jfuse.frontends.jaxprs",
    "jfuse.frontends.tensorflow",
    "jfuse.frontends",
    "jfuse.frontends.jax_functions",
    "jfuse.frontends.torch_modules",
    "jfuse.running",
    "jfuse.proof",
    "jfuse.quantization",
    "jfuse.passes.options",
    "jfuse.passes.custom_options",
    "jfuse.passes.context",
    "jfuse.passes.rewrite",
    "jfuse.passes.simplify",
    "jfuse.passes.outline",
    "jfuse.passes.legalize",
    "jfuse.passes.scans",
    "jfuse.passes.fuse",
    "jfuse.passes.quantize",
    "jfuse.passes.states",
    "jfuse.passes.gates",
    "jfuse.passes",
    "jfuse.programs",
    "jfuse.model",
    "jfuse.verification.subject",
    "jfuse.verification.inputs",
    "jfuse.verification.options",
    "jfuse.verification.plan",
    "jfuse.verification.runners",
    "jfuse.verification.locate",
    "jfuse.verification.compare",
    "jfuse.verification.sides",
    "jfuse.verification.matched_sides",
    "jfuse.verification.quantized",
    "jfuse.verification",
    "jfuse.verification.quantization_noise",
    "jfuse.reports",
    "jfuse.differences",
    "jfuse.api",
    "jfuse.benchmark",
    "jfuse.lite",
    "jfuse",
    "jfuse.cli",
    "jfuse.__main__",
)
"""Rooms and single modules from the bottom up; the most specific line that fits a module is its own. A module imports
from its own line and from those above it. docs/architecture.md draws the same order."""
MOST_AT_START = 690  # it only falls
LEVEL = {name: level for level, name in enumerate(ORDER)}

STARTED = frozenset(
    {
        "jfuse.__main__",
        "jfuse.cli.streams.last_words",  # as a program of its own
        "jfuse.running.litert_worker.__main__",
        "jfuse.running.litert_worker.compiled_model",  # by the name of the interpreter, as the next two
        "jfuse.running.litert_worker.litert",
        "jfuse.running.litert_worker.micro",
        "jfuse.running.programs.guard",  # as a program of its own
        "jfuse.lowering.composites.suppression",  # a rule for those who ask for it: docs/rules.md
    }
)
"""Modules that no other imports: programs, and what users import."""


# Slow to import, and absent where only the core is used: imported by these modules alone, and only inside functions.
LAZY = {"google", "h5py", "keras", "matplotlib", "tensorflow", "tf_keras", "torch"}
LAZY_USERS = ("jfuse.benchmark.picture", "jfuse.frontends.", "jfuse.tf_nodes.", "jfuse.verification.runners.")


SEAMS = {
    ("jfuse.api.convert", "jfuse.api.verify"),
    ("jfuse.api.load", "jfuse.frontends.torch_modules.source"),
    ("jfuse.api.load", "jfuse.tflite.read.file"),
    ("jfuse.api.lower", "jfuse.quantization.calibrate"),
    ("jfuse.api.lower", "jfuse.verification.quantization_noise.optional_steps"),
    ("jfuse.passes.states.modes", "jfuse.passes.states.streams"),
}
"""Modules that stand for dozens, and that one function imports when it is called: what many conversions do not need."""


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


def disguised(tree: ast.AST) -> list[tuple[int, str]]:
    """The calls of `import_module` and its kin with a name of ours, with their lines."""
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args)
    named = ((c, c.args[0]) for c in calls if ast.unparse(c.func).split(".")[-1] in ("import_module", "__import__"))
    texts = ((c.lineno, str(a.value)) for c, a in named if isinstance(a, ast.Constant))
    return [(line, text) for line, text in texts if text.startswith("jfuse")]


def targets(statement: ast.Import | ast.ImportFrom, modules: dict[str, Path]) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    source = "." * statement.level + (statement.module or "")
    for alias in statement.names:
        name = f"{source}.{alias.name}"
        yield name if name in modules else source


@cache
def imports() -> list[Import]:
    """All of the product: not before a test asks, as every worker collects this file."""
    return [
        Import(module, statement.lineno, target, in_function)
        for module, path in MODULES.items()
        for statement, in_function in statements(parsed(path))
        for target in targets(statement, MODULES)
    ]


MODULES = source_files()
PACKAGES = {module for module, path in MODULES.items() if path.name == "__init__.py"}


def room_of(module: str) -> str:
    """The line of ORDER that a module stands on: jfuse.ir.graph -> jfuse.ir; "" where there is none."""
    parts = module.split(".")
    lines = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    found = next((line for line in lines if line in LEVEL), "")
    return "" if found == "jfuse" != module else found


def circles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """The groups of modules that import each other, straight or through others."""
    reached: dict[str, set[str]] = {}
    for module in graph:
        seen: set[str] = set()
        waiting = list(graph[module])
        while waiting:
            target = waiting.pop()
            if target not in seen:
                seen.add(target)
                waiting += graph.get(target, ())
        reached[module] = seen
    groups = {tuple(sorted(other for other in reached[m] if m in reached[other])) for m in graph if m in reached[m]}
    return [list(group) for group in sorted(groups)]


def root_name(module: str) -> str:
    return module.split(".")[0]


def test_every_module_has_a_room() -> None:
    assert [module for module in MODULES if not room_of(module)] == []


def test_every_room_exists() -> None:
    assert [line for line in ORDER if line not in MODULES] == []


def test_imports_go_down() -> None:
    ours = [i for i in imports() if i.target in MODULES]
    assert len(ours) > 1000, "imports are not found"
    assert [str(i) for i in ours if LEVEL[room_of(i.target)] > LEVEL[room_of(i.module)]] == []


def test_no_modules_import_each_other() -> None:
    imported: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in imports():
        if found.target in MODULES and found.target not in PACKAGES:
            imported[found.module].add(found.target)
    assert circles(imported) == []


def top_room(module: str) -> str:
    """The package, or the file, at the top of `jfuse` that a module belongs to: jfuse.ir.graph -> jfuse.ir."""
    return ".".join(module.split(".")[:2])


def test_rooms_are_few_and_import_no_room_that_imports_them() -> None:
    rooms: dict[str, set[str]] = {top_room(module): set() for module in MODULES}
    for i in imports():
        if i.target in MODULES and top_room(i.target) != top_room(i.module) and "jfuse" not in (i.target, i.module):
            rooms[top_room(i.module)].add(top_room(i.target))
    files = {path.name for path in (ROOT / "jfuse").glob("*.py")}
    print(f"{len(rooms) - 1} rooms, {sum(map(len, rooms.values()))} arrows, files at the top: {sorted(files)}")
    assert circles(rooms) == []
    assert len(rooms) <= 24
    assert len(files) <= 3


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [["b", "c"]]


def test_no_folder_holds_more_than_twenty_files() -> None:
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in MODULES.values() if path.name[0] != "_")
    assert {folder: n for folder, n in counts.items() if n > 20} == {}


def unreached(modules: Collection[str], imported: Collection[str]) -> list[str]:
    """The modules that nothing imports, neither they nor something in them."""
    reached = {
        ".".join(parts[:n]) for parts in (name.split(".") for name in imported) for n in range(1, len(parts) + 1)
    }
    return sorted(set(modules) - reached)


def test_every_module_is_reached() -> None:
    assert unreached(MODULES, {i.target for i in imports()}) == sorted(STARTED), "dead modules, or entries of no use"
    assert unreached(["a", "a.b", "a.c"], {"a.b"}) == ["a.c"]


def test_imports_are_absolute_and_under_jfuse() -> None:
    assert [str(i) for i in imports() if root_name(i.target) in {"", "kernels", "lowering"}] == []


def test_tensorflow_is_imported_only_where_it_is_read() -> None:
    lazy = [i for i in imports() if root_name(i.target) in LAZY]
    assert [str(i) for i in lazy if not (i.in_function and i.module.startswith(LAZY_USERS))] == []


def test_only_the_face_imports_by_name() -> None:
    """There all names are imported at their first use."""
    found = {m: disguised(parsed(path)) for m, path in MODULES.items()}
    assert [module for module, names in found.items() if names] == ["jfuse"]
    assert disguised(ast.parse("importlib.import_module('jfuse.ir')")) == [(1, "jfuse.ir")]


def test_functions_import_nothing_but_tensorflow_and_at_seams() -> None:
    """The commands import what they do when they run, so that help and wrong options are answered at once."""
    late = [i for i in imports() if i.in_function and root_name(i.target) not in LAZY]
    commands = {"jfuse.cli", "jfuse.cli.app", "jfuse.cli.frame", "jfuse.cli.measured_commands"}
    others = [i for i in late if i.module not in commands or room_of(i.target) != "jfuse.cli"]
    assert {(i.module, i.target) for i in others} == SEAMS
    at_start = {(i.module, i.target) for i in imports() if not i.in_function}
    assert at_start & SEAMS == set()


def at_start(root: str) -> set[str]:
    """The modules of ours that are imported with one, as the source says."""
    starts: dict[str, list[str]] = {}
    for i in imports():
        if not i.in_function and i.target in MODULES and i.module != "jfuse":  # the face imports at first use
            starts.setdefault(i.module, []).append(i.target)
    reached, waiting = set(), [root]
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            parents = (module.rpartition(".")[0],) if "." in module else ()
            waiting += [*starts.get(module, ()), *parents]
    return reached


def test_a_conversion_starts_with_few_modules() -> None:
    """Each costs about half a millisecond in every process that converts."""
    count = len(at_start("jfuse.api.convert"))
    print(f"modules of ours that `jfuse.convert` starts with: {count}")
    assert count <= MOST_AT_START


def imported_by(program: str, names: Collection[str]) -> list[str]:
    """Which of these packages a new process has imported after a program."""
    program += f"; import sys; print(sorted({set(names)!r} & sys.modules.keys()), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return list(ast.literal_eval(result.stderr.splitlines()[-1]))


def test_import_jfuse_imports_nothing_slow() -> None:
    assert imported_by("import jfuse; jfuse.__version__", {"jax", "numpy", *LAZY}) == []


def test_every_name_is_there_at_its_first_use() -> None:
    program = "import jfuse; [getattr(jfuse, n) for n in jfuse.__all__]; jfuse.ir.parse; from jfuse import *"
    assert imported_by(program, LAZY) == []


@pytest.mark.parametrize(
    ("words", "code"), [(["--help"], 0), (["convert", "--help"], 0), (["convert", "a", "-o", "b", "--loop", "c"], 2)]
)
def test_help_and_wrong_options_import_nothing_slow(words: list[str], code: int) -> None:
    run = f"from typer.testing import CliRunner as R; from jfuse.cli import app; r = R().invoke(app.app, {words!r})"
    assert imported_by(f"{run}; assert r.exit_code == {code}", {"jax", "numpy", "rich", *LAZY}) == []


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
