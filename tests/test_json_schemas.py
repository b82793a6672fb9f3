"""docs/schemas: each format has a file, made from the types of its records."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_options import CALLS
from tests.generated import COMMAND, GENERATED
from tests.json_schemas import FORMATS, path, text

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", FORMATS)
def test_the_file_is_up_to_date(name: str) -> None:
    form = FORMATS[name]
    assert path(form) in GENERATED
    assert (ROOT / path(form)).read_text(encoding="utf-8") == text(form), COMMAND


def test_each_command_has_a_schema_on_the_page() -> None:
    page = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("|") and "](schemas/" in line]
    for command, (name, _) in CALLS.items():
        (row,) = (row for row in rows if f"`{command}`" in row)
        assert path(FORMATS[name]).removeprefix("docs/") in row
    assert {name for name, _ in CALLS.values()} == FORMATS.keys()
