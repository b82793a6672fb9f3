"""Python that the user brings along: modules with custom layers, files with rules."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jfuse.errors import JfuseError
from jfuse.lowering.rules import FuseRule, LowerRule, RecoverRule, Rule


def run(modules: Sequence[str] | None, files: Sequence[Path] | None) -> tuple[Rule, ...]:
    """Import modules by name and files by path; the rules that the files define, for `rules=` of `jfuse.convert`.

    What the user's code raises passes. Raises JfuseError for a file without rules, which is not what was meant.
    """
    for name in modules or ():
        importlib.import_module(name)
    return tuple(rule for path in files or () for rule in _rules_in(path))


def _rules_in(path: Path) -> list[Rule]:
    found = [value for value in vars(_imported(path)).values() if isinstance(value, LowerRule | FuseRule | RecoverRule)]
    if not found:
        raise JfuseError(
            f"{path} defines no rule",
            expected="functions with @jfuse.fuses, @jfuse.lowers or @jfuse.recovers",
            remedy="--import for modules that are to be imported for something else",
        )
    return list({id(rule): rule for rule in found}.values())


def _imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise JfuseError(f"{path} is no Python file", expected="a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))  # it may import its neighbours
    spec.loader.exec_module(module)
    return module
