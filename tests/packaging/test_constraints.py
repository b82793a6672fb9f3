"""The versions that jfuse is tested with: constraints.txt, the hashes in .ci/, the lowest ones in pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"python_version": "3.11", "python_full_version": "3.11.7"}  # of .ci/hashed.txt


def pinned(path: Path) -> dict[str, Version]:
    """The version of each package that a file pins for this environment."""
    found: dict[str, Version] = {}
    for line in re.split(r"(?<!\\)\n", path.read_text()):
        requirement = line.split("#")[0].split("--hash")[0].strip(" \\\n")
        if not requirement:
            continue
        read = Requirement(requirement)
        if read.marker is None or read.marker.evaluate(ENVIRONMENT):
            (pin,) = read.specifier
            found[canonicalize_name(read.name)] = Version(pin.version)
    return found


def test_the_hashed_versions_are_those_of_the_constraints() -> None:
    hashed, constraints = (pinned(ROOT / name) for name in (".ci/hashed.txt", "constraints.txt"))
    assert len(hashed) > 50
    assert {name: constraints.get(name) for name in hashed} == hashed
    blocks = re.split(r"(?<!\\)\n", (ROOT / ".ci" / "hashed.txt").read_text())
    assert all("--hash=sha256:" in block for block in blocks if "==" in block)


def test_the_lowest_versions_are_tested_ones() -> None:
    """The tests run with what constraints.txt has: a bound below its release series has never been tried."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    constraints = pinned(ROOT / "constraints.txt")
    for text in project["dependencies"]:
        requirement = Requirement(text)
        (bound,) = [s for s in requirement.specifier if s.operator != "<"]
        tested = constraints[canonicalize_name(requirement.name)]
        lowest = Version(bound.version)
        assert bound.operator == ">="
        assert tested.release[: len(lowest.release)] == lowest.release, text
        assert requirement.specifier.contains(tested), text
