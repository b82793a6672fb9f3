"""The site: what docstrings say of arguments becomes a section, which mkdocstrings draws as a table."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ARGUMENTS = Path(__file__).parents[2] / "docs" / "_site" / "arguments.py"
DOCSTRING = """Convert a source.

    source, batch: as for `load`; target: as for `lower`.
    verify: compares as it says;
        False skips it. data: real inputs. Raises VerifyFailed if outputs differ.

    The file is read once: the rest is lazy.
    """
SECTION = """Convert a source.

Raises VerifyFailed if outputs differ.

The file is read once: the rest is lazy.

Args:
    source: as for `load`
    batch: as for `load`
    target: as for `lower`.
    verify: compares as it says; False skips it.
    data: real inputs."""


def test_arguments_are_a_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object))  # an extra: only the site needs it
    with_section = runpy.run_path(str(ARGUMENTS))["with_section"]
    names = {"source", "batch", "target", "verify", "data"}
    assert with_section(DOCSTRING, "Args", names).rstrip() == SECTION.rstrip()
    assert with_section("A plain one: nothing.", "Args", names) == "A plain one: nothing."
