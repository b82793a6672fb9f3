"""Rules that installed packages bring, found by their entry points."""

from __future__ import annotations

from pathlib import Path

import pytest

import jfuse
from jfuse.base.errors import RuleError
from jfuse.lowering.rules import FuseRule

RULE = """
import jfuse

@jfuse.fuses("acme.installed", default=False)
def fuse_installed(x):
    return jfuse.ops.neg(x)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where packages are installed."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(site: Path, package: str, module: str, text: str) -> None:
    """As pip leaves a package that has rules."""
    (site / f"{module}.py").write_text(text)
    facts = site / f"{package.replace('-', '_')}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[jfuse.rules]\n{module} = {module}\n")


def test_the_rules_of_installed_packages_are_found(site: Path) -> None:
    install(site, "acme-rules", "installed_rules_a", RULE)
    (rule,) = jfuse.installed_rules()
    assert isinstance(rule, FuseRule)
    assert rule.names == ("acme.installed",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module", "package acme-broken cannot be imported.*No module named 'no_such_module'"),
        ("x = 1", "package acme-broken names no rules"),
    ],
)
def test_a_package_with_no_rules_is_named(site: Path, text: str, message: str) -> None:
    install(site, "acme-broken", f"installed_rules_{len(text)}", text)
    with pytest.raises(RuleError, match=f"(?s){message}"):
        jfuse.installed_rules()


def test_two_packages_with_one_name_are_an_error(site: Path) -> None:
    install(site, "acme-rules", "installed_rules_b", RULE)
    install(site, "other-rules", "installed_rules_c", RULE)
    with pytest.raises(
        RuleError, match=r"(?s)two packages have a rule for 'acme.installed'.*acme-rules and other-rules"
    ):
        jfuse.installed_rules()
