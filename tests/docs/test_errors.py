"""The page of errors has every class that users can see, and the pictures are those of the committed results."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest

import jfuse
from bench import graphs
from bench.pictures import PICTURES, pictures
from jfuse.base.errors import JfuseError, NotFused

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def classes(base: type[JfuseError]) -> set[type[JfuseError]]:
    below: list[type[JfuseError]] = [c for c in base.__subclasses__() if c.__module__.startswith("jfuse.")]
    return {base}.union(*(classes(c) for c in below))


def test_every_error_has_a_row_with_a_cause_and_a_remedy() -> None:
    for module in pkgutil.walk_packages(jfuse.__path__, "jfuse."):
        if "worker" not in module.name and not module.name.endswith("one_conversion"):
            importlib.import_module(module.name)
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines() if "| `" in line]
    listed = {row[0].strip("`"): row for row in rows if row[0].startswith("`")}
    assert set(listed) == {c.__name__ for c in classes(JfuseError) - {NotFused}}
    assert all(len(row) == 3 and all(row) for row in listed.values())
    assert "`NotFused`" in PAGE.read_text(encoding="utf-8")


def test_every_option_that_the_page_names_is_one() -> None:
    from typer.main import get_command

    from jfuse.cli.app import app

    commands = get_command(app).commands.values()  # type: ignore[attr-defined]
    known = {o for c in commands for p in c.params for o in (*p.opts, *p.secondary_opts)}
    assert set(re.findall(r"(?<![\w|-])--[a-z][a-z-]+", PAGE.read_text(encoding="utf-8"))) <= known


@pytest.mark.parametrize("name", sorted(pictures()))
def test_a_picture_is_that_of_the_results(name: str) -> None:
    """`python -m bench.pictures` writes them anew."""
    assert (PICTURES / name).read_text(encoding="utf-8") == pictures()[name]


@pytest.mark.slow
def test_the_graphs_of_the_picture_are_those_of_the_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apart from the numbers that Keras gives to its layers."""
    committed = json.loads(graphs.RESULT.read_text(encoding="utf-8"))
    monkeypatch.setattr(graphs, "RESULT", tmp_path / "graphs.json")
    graphs.main()
    made = json.loads((tmp_path / "graphs.json").read_text(encoding="utf-8"))
    for side in ("before", "after"):
        ops = [[[row[1], row[3]] for row in found[side]["rows"] if row[0] == "op"] for found in (committed, made)]
        assert ops[0] == ops[1]


def test_every_picture_is_shown_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGE.parent.glob("*.md"))
    assert [name for name in pictures() if f"(pictures/{name})" not in pages] == []
