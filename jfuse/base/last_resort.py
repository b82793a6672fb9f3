"""The last resort of the public functions: wraps unexpected exceptions in a JfuseError that names the step.

The user's own exceptions (of rules, passes and callbacks, of iterators over inputs, of functions under comparison) pass
as they are, and so do interrupts: where `users_code` has marked them, or their frames are neither jfuse's nor a
library's.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from jfuse.base.errors import ImportFailed, InternalError, JfuseError
from jfuse.base.option_values import need_function, need_truth
from jfuse.base.options import with_objects
from jfuse.base.settings import eager_tensorflow, has_device, large_programs, need_threads_of_jax, own_settings
from jfuse.base.users_code import as_users, is_users

P = ParamSpec("P")
R = TypeVar("R")

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple(sysconfig.get_path(kind) + os.sep for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
_INSTALLED = re.compile(r"[\\/](site|dist)-packages[\\/]")  # of another environment whose packages this one sees
_OF_VALUES = (ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError)  # what NumPy and jax raise for them
_NO_MEMORY = ("failed to map segment", "annot allocate memory", "out of memory")  # of the loader of libraries
_KINDS = {"bool": need_truth, "OnStage": need_function, "OnProgress": need_function}
"""Checks of option values, by the annotated types of the public functions."""
_TYPED_IN = ("<stdin>", "<console>", "<ipython-input")  # other names in brackets are of generated code


NEXT = {"ai-edge-litert": "3", "jax": "0.13", "numpy": "3", "tensorflow": "2.22", "torch": "2.14"}
"""The first versions of libraries that jfuse was not run with, as pyproject.toml bounds them."""


def only_jfuse_errors(stage: str, *, on_values: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let nothing but JfuseErrors and the user's own exceptions leave the decorated public function.

    Keywords that are fields of its objects of options are put into these; unknown ones are an UnknownOption. Truth
    values and functions that are something else are refused.
    stage: the function's task, for the message.
    on_values: it computes with the user's arrays, whose values (a shape, an index) may be invalid.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        stated = {name: _KINDS[kind] for name, kind in function.__annotations__.items() if kind in _KINDS}
        parameters = inspect.signature(function).parameters.values()
        takes_objects = not any(p.kind is p.VAR_KEYWORD for p in parameters)

        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            if takes_objects:
                args, kwargs = cast(Any, with_objects(function, args, kwargs))
            need_threads_of_jax()
            for name in stated.keys() & kwargs.keys():
                stated[name](f"{name}=", kwargs[name])
                if stated[name] is need_function:
                    kwargs[name] = as_users(cast(Any, kwargs[name]))
            try:
                with own_settings(), eager_tensorflow(), large_programs():
                    return function(*args, **kwargs)
            except JfuseError:
                raise
            except Exception as error:
                below = error.__traceback__ and error.__traceback__.tb_next
                if below is None or is_users(error) or any(map(_is_written_by_users, _files(below))):
                    raise  # the call itself does not fit, or the user's own code failed
                if on_values and isinstance(error, _OF_VALUES):
                    raise _refused(error, stage) from error
                raise _described(error, stage) from error

        return guarded

    return decorate


def _described(error: Exception, stage: str) -> JfuseError:
    """The JfuseError for an unexpected exception."""
    where = getattr(error, "jfuse_where", None)
    stage = f"{stage} ({step})" if (step := getattr(error, "jfuse_step", None)) else stage
    if isinstance(error, OSError):
        return JfuseError(f"{stage} failed: {error}", where=where)
    if isinstance(error, ImportError) and not _raised_here(error):
        return _not_imported(error, stage, where)
    if isinstance(error, MemoryError):
        return JfuseError(f"{stage} failed: there is not enough memory", where=where, found=str(error) or None)
    if isinstance(error, RuntimeError | AssertionError) and not has_device():
        return JfuseError(
            f"{stage} failed: jax has no device to compute on",
            found=" ".join(str(error).split()) or None,
            remedy="JAX_PLATFORMS=cpu in the environment, or none",
        )
    found = " ".join(f"{type(error).__name__}: {error}".split())
    if untested := _untested():
        expected = ", ".join(f"{name} below {NEXT[name]}, as this version of jfuse was tested" for name in untested)
        installed = ", ".join(f"{name} {version}" for name, version in untested.items())
        remedy = " ".join(["pip install", *(f"'{name}<{NEXT[name]}'" for name in untested)]) + ", or a newer jfuse"
        return InternalError(
            f"{stage} failed", where=where, expected=expected, found=f"{installed}; {found}", remedy=remedy
        )
    remedy = "please report this, with the model and the traceback above"
    if isinstance(error, RecursionError):
        remedy = "a higher sys.setrecursionlimit where the model nests as deeply as that; else please report this"
    return InternalError(f"jfuse itself failed: {stage}", where=where, found=found, remedy=remedy)


def _untested() -> dict[str, str]:
    """The versions of loaded libraries that are newer than the tested ones."""
    loaded = {name: sys.modules.get(name.replace("-", "_")) for name in NEXT}
    versions = {name: str(getattr(module, "__version__", "0")) for name, module in loaded.items()}
    return {name: version for name, version in versions.items() if _numbers(version) >= _numbers(NEXT[name])}


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: (2, 14, 0) of 2.14.0+cpu."""
    return tuple(int(n) for n in re.match(r"[\d.]*", version)[0].split(".") if n)  # type: ignore[index]


def _not_imported(error: ImportError, stage: str, where: str | None) -> JfuseError:
    """The error for a library that does not load, as TensorFlow's where memory is short."""
    found = " ".join(f"{type(error).__name__}: {error}".split())
    if any(words in found for words in _NO_MEMORY):
        return JfuseError(f"{stage} failed: there is not enough memory to load a library", where=where, found=found)
    remedy = "repair its installation: pip check lists the conflicts"
    if untested := _untested():
        found = f"{found}; {', '.join(f'{name} {version}' for name, version in untested.items())}"
        remedy = f"{', '.join(f'{name}<{NEXT[name]}' for name in untested)}, with which jfuse was tested"
    return ImportFailed(f"{stage} failed: a library cannot be imported", where=where, found=found, remedy=remedy)


def _raised_here(error: Exception) -> bool:
    """Whether jfuse's own code raised an error, and no library below it."""
    *_, last = _files(error.__traceback__)
    return last.startswith(_OURS)


def _refused(error: Exception, stage: str) -> JfuseError:
    """The error for values that some op does not take."""
    return JfuseError(
        f"{stage} failed",
        where=getattr(error, "jfuse_where", None),
        expected="inputs whose values the model takes",
        found=" ".join(f"{type(error).__name__}: {error}".split()),
        remedy="other inputs; where TensorFlow takes these, please report this",
    )


def _files(traceback: TracebackType | None) -> Iterator[str]:
    while traceback is not None:
        yield traceback.tb_frame.f_code.co_filename
        traceback = traceback.tb_next


def _is_written_by_users(file: str) -> bool:
    """Whether code stands neither in jfuse nor in a library."""
    if file.startswith("<"):
        return file.startswith(_TYPED_IN)
    path = os.path.abspath(file)
    return not path.startswith((_OURS, *_LIBRARIES)) and _INSTALLED.search(path) is None
