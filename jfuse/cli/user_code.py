"""Python that the user brings along: modules with custom layers, files with rules."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jfuse.errors import JfuseError, raised_in
from jfuse.lowering.installed import installed_rules, rules_in
from jfuse.lowering.rules import Rule


def run(modules: Sequence[str] | None, files: Sequence[Path] | None) -> tuple[Rule, ...]:
    """Import modules by name and files by path; the rules for `rules=` of `jfuse.convert`.

    These are the rules of installed packages, and before them those that the files define. Raises JfuseError for a file
    without rules, which is not what was meant, and where the user's code raises anything.
    """
    for name in modules or ():
        spec = importlib.util.find_spec(name)
        with _of_user(name, None if spec is None else spec.origin):
            importlib.import_module(name)
    given = tuple(rule for path in files or () for rule in _rules_of(path))
    taken = {(type(rule), name) for rule in given for name in rule.names}
    installed = (rule for rule in installed_rules() if not any((type(rule), name) in taken for name in rule.names))
    return (*installed, *given)


def _rules_of(path: Path) -> tuple[Rule, ...]:
    rules = rules_in(_imported(path))
    if not rules:
        raise JfuseError(
            f"{path} defines no rule",
            expected="functions with @jfuse.fuses, @jfuse.lowers or @jfuse.recovers",
            remedy="--import for modules that are to be imported for something else",
        )
    return rules


def _imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise JfuseError(f"{path} is no Python file", expected="a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))  # it may import its neighbours
    with _of_user(str(path), spec.origin):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _of_user(what: str, file: str | None) -> Iterator[None]:
    try:
        yield
    except JfuseError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise JfuseError(f"{what} cannot be imported", found=raised_in(file, error)) from error
