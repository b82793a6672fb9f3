"""Python that the user brings along: modules with custom layers, files with rules."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from jfuse.base.errors import JfuseError, raised_in
from jfuse.lowering.installed import found_in, installed_rules, rules_in
from jfuse.lowering.rules import Rule
from jfuse.passes.installed import installed_passes
from jfuse.passes.options import Pipeline
from jfuse.passes.own import Pass, registered_passes


class UserRules(TypedDict):
    """Rules and passes of the user's code, as arguments of `jfuse.convert`."""

    rules: tuple[Rule, ...]
    passes: tuple[Pass, ...]


def run(modules: Sequence[str] | None, files: Sequence[Path] | None) -> UserRules:
    """Import modules by name and files by path; the rules and passes of the files and of installed packages.

    Those of files come before those of packages of the same name. Passes that are registered for the process are not
    among them. Raises JfuseError for a file with neither, and where the user's code raises anything.
    """
    for name in modules or ():
        spec = importlib.util.find_spec(name)
        with _of_user(name, None if spec is None else spec.origin):
            importlib.import_module(name)
    defined = [_defined_in(path) for path in files or ()]
    rules = tuple(rule for each in defined for rule in each["rules"])
    passes = tuple(own for each in defined for own in each["passes"])
    taken = {(type(rule), name) for rule in rules for name in rule.names}
    installed = (rule for rule in installed_rules() if not any((type(rule), name) in taken for name in rule.names))
    registered = {own.name for own in registered_passes()}
    named = {own.name for own in passes} | registered
    others = tuple(own for own in installed_passes() if own.name not in named)
    return UserRules(
        rules=(*installed, *rules), passes=(*others, *(own for own in passes if own.name not in registered))
    )


def added(pipeline: Pipeline, modules: Sequence[str] | None, files: Sequence[Path] | None) -> Pipeline:
    """The pipeline with what `run` gives."""
    return replace(pipeline, **run(modules, files))


def _defined_in(path: Path) -> UserRules:
    module = _imported(path)
    defined = UserRules(rules=rules_in(module), passes=found_in(module, Pass))
    if not defined["rules"] and not defined["passes"]:
        raise JfuseError(
            f"{path} defines no rule",
            expected="functions with @jfuse.fuses, @jfuse.lowers, @jfuse.recovers or @jfuse.rewrites",
            remedy="--import for modules that are to be imported for something else",
        )
    return defined


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
