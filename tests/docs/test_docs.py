"""The documents: refusals are listed as the code has them, and code that is marked runs."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bench import latency
from bench.runs_on import markdown
from jfuse.lowering.defaults import default_rules
from tests.docs import recipe_table
from tests.generated import COMMAND
from tests.parsed import parsed

ROOT = Path(__file__).parents[2]
ROOMS = ("jfuse", "lowering", "kernels")
REFUSALS = ROOT / "jfuse" / "refusals.md"  # in the package: `jfuse explain` reads it
PAGES = [ROOT / "README.md", REFUSALS, *sorted((ROOT / "docs").glob("*.md"))]
MARK = "<!-- runs -->"


def refusals(tree: ast.Module) -> Iterator[ast.expr]:
    """The names that a module gives to `need` and `NotFused`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            place = {"need": 1, "NotFused": 0}.get(node.func.id)
            if place is not None and len(node.args) > place:
                yield node.args[place]


def condition(name: ast.expr) -> str | None:
    """A literal name, `static_<name>` where the end is computed; None where all of it is."""
    stem = name.values[0] if isinstance(name, ast.JoinedStr) else name
    if not isinstance(stem, ast.Constant) or not isinstance(stem.value, str):
        return None
    return stem.value if stem is name else f"{stem.value}<name>"


@cache
def refusing() -> tuple[tuple[Path, ast.Module], ...]:
    """The modules that refuse something; others are not parsed.

    Conditions of peephole rules reach no report: tests/lowering/peephole is about them.
    """
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    ours = [path for path in paths if not path.is_relative_to(ROOT / "lowering" / "peephole")]
    found = [path for path in ours if re.search(r"\b(need|NotFused)\(", path.read_text(encoding="utf-8"))]
    return tuple((path, parsed(path)) for path in found)


def conditions() -> set[str]:
    return {found for _, tree in refusing() for name in refusals(tree) if (found := condition(name))}


def rows() -> list[list[str]]:
    """The cells of each row of jfuse/refusals.md, the name without its quotes."""
    lines = REFUSALS.read_text(encoding="utf-8").splitlines()
    return [[c.strip().strip("`") for c in line.strip("|").split("|")] for line in lines if line.startswith("| `")]


def test_every_condition_has_one_row_and_no_row_is_without_a_condition() -> None:
    listed = Counter(name for name, *_ in rows())
    assert {name: count for name, count in listed.items() if count > 1} == {}
    assert set(listed) == conditions()


def test_every_row_says_what_it_means_and_what_to_do() -> None:
    assert [row for row in rows() if len(row) != 3 or not all(row)] == []


def test_conditions_are_written_where_they_are_refused() -> None:
    """A name that is passed on could not be found by the tests above; `need` itself is the one place."""
    computed = [path for path, tree in refusing() for name in refusals(tree) if condition(name) is None]
    assert [path.relative_to(ROOT) for path in computed] == [Path("lowering/rules.py")]


def test_every_condition_has_a_test() -> None:
    """In a text of a test; files without the names that are still missing are not parsed."""
    untested = {name.removesuffix("<name>"): name for name in conditions()}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path != Path(__file__) and any(map(path.read_text(encoding="utf-8").__contains__, untested)):
            words = words_of_texts(path)
            for stem, name in list(untested.items()):
                if stem in words if stem == name else any(w.startswith(stem) and w != stem for w in words):
                    del untested[stem]
    assert untested == {}


def words_of_texts(path: Path) -> set[str]:
    """The words of the texts in a file."""
    texts = (n.value for n in ast.walk(parsed(path)) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return set(re.findall(r"\w+", " ".join(texts)))


def program(page: Path, mark: str = MARK) -> str:
    """The marked python blocks of a page, on the lines on which they stand there."""
    kept, inside, marked = [], False, False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.startswith("```")
        if fence and inside:
            inside = False
        kept.append(line if inside else "")
        if fence and marked:
            assert line == "```python", f"{page.name}: {mark} stands before {line}"
            inside = True
        marked = line == mark
    return "\n".join(kept) + "\n"


RUNNABLE = [page for page in PAGES if MARK in page.read_text(encoding="utf-8")]


@pytest.fixture
def own_rules() -> Iterator[None]:
    """Take back what a page registers."""
    lowers, fuses, recovers = dict(default_rules().lowers), dict(default_rules().fuses), dict(default_rules().recovers)
    yield
    rules = default_rules()
    rules.lowers, rules.fuses, rules.recovers = lowers, fuses, recovers


@pytest.mark.usefixtures("own_rules")
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_marked_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / f"{page.stem}.py"  # a file, for TensorFlow reads the source of what it traces
    script.write_text(program(page), encoding="utf-8")
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), {"__name__": page.stem})


@pytest.mark.slow
@pytest.mark.parametrize("library", ["keras", "flax", "torch"])
def test_the_first_example_of_readme_runs(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    text = program(ROOT / "README.md", f"<!-- runs with {library} -->")
    assert "jfuse.convert(" in text
    names: dict[str, Any] = {"__name__": library}
    exec(compile(text, f"README.{library}", "exec"), names)
    assert names["result"].report.operators["unidirectional_sequence_lstm"] == 1
    assert {"keras": "tensorflow", "flax": "jax", "torch": "pytorch"}[library] in {
        d.pair.split("/")[0] for d in names["result"].report.differences
    }
    assert (tmp_path / "model.tflite").stat().st_size > 0


def test_the_page_on_rules_is_run() -> None:
    assert "rules" in [page.stem for page in RUNNABLE]
    assert program(ROOT / "docs" / "rules.md").count("@jfuse.fuses") >= 5


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links {target}"


MAP = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MAPPED = ("jfuse", "jfuse/passes", "jfuse/verification", "lowering")
"""Folders whose rooms the map names each; in `kernels` it names those that are no family of ops."""


def test_the_map_names_every_room() -> None:
    rooms = [p.parent for folder in MAPPED for p in (ROOT / folder).glob("*/__init__.py") if not p.parent.is_symlink()]
    assert len(rooms) > 30
    assert [str(room.relative_to(ROOT)) for room in rooms if not re.search(rf"\b{room.name}\b", MAP)] == []


def test_what_the_map_names_is_there() -> None:
    """Files and folders, whose paths begin at any room."""
    folders = ("jfuse", "lowering", "kernels", "tests", "bench", "docs")
    found = {f"/{p.relative_to(ROOT).as_posix()}" for folder in folders for p in (ROOT / folder).rglob("*")}
    named = {n.rstrip("/") for n in re.findall(r"`([a-z_]\w*(?:/\w+)*(?:/|\.\w+)?)`", MAP)}
    paths = {name for name in named if "/" in name or name.endswith((".py", ".md"))}
    assert len(paths) > 80
    assert [p for p in paths if not any(f.endswith((f"/{p}", f"/{p}.py")) for f in found)] == []


def test_the_page_of_runtimes_is_that_of_the_committed_result() -> None:
    result = json.loads((ROOT / "bench" / "results" / "runs_on.json").read_text())
    assert len(result["models"]) >= 40
    assert markdown(result) == (ROOT / "docs" / "runs-on.md").read_text(), COMMAND


def test_the_table_of_recipes_is_that_of_the_result() -> None:
    assert recipe_table.markdown() in (ROOT / "docs" / "quantization.md").read_text(encoding="utf-8")


def test_the_table_of_forms_is_that_of_the_result() -> None:
    us = {f"{form} in {api}": 10.0 * n for n, (api, form) in enumerate(product(latency.APIS, latency.FORMS), 1)}
    rows = [{"units": 8, "steps": 10, "batch": 1, "us": us}]
    page = latency.with_table("# Targets\n", rows)
    assert "| 8 | 10 | 1 | 10 | 2.00 | 3.00 | 4.00 | 5.00 | 7.00 |" in page
    assert latency.with_table(page, rows) == page
    result = ROOT / "bench" / "results" / "latency_forms.json"
    targets = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")
    assert result.exists() == (latency.MARKS[0] in targets)
    if result.exists():
        assert latency.with_table(targets, json.loads(result.read_text())["rows"]) == targets


def test_what_readme_promises_microcontrollers_is_measured() -> None:
    models = json.loads((ROOT / "bench" / "results" / "runs_on.json").read_text())["models"]
    promised = ["LSTM, 8 units", "LSTM, stacked", "LSTM, stateful", "LSTM, masked", "biLSTM", "GRU", "SimpleRNN"]
    streams = [name for name in models if name.startswith("stream, ")]
    assert len(streams) >= 8
    for name in (*promised, "keyword spotter", "CNN", *streams):
        found = {runtime: models[name][runtime] for runtime in ("ai-edge-litert", "tflite-runtime", "tflite-micro")}
        assert set(found.values()) == {"right"}, (name, found)
