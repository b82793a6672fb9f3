"""The table of faults stays true: each still fits the source that it breaks, and names tests that there are."""

from __future__ import annotations

import ast

from tests.faults import FAULTS, ROOT


def test_every_fault_fits_the_source() -> None:
    for fault in FAULTS:
        broken = fault.breaks((ROOT / fault.path).read_text(encoding="utf-8"))
        ast.parse(broken)  # a fault that is no Python would redden anything


def test_every_fault_names_its_tests() -> None:
    files = {argument for fault in FAULTS for argument in fault.tests if argument.startswith("tests/")}
    assert [name for name in files if not (ROOT / name).exists()] == []
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
