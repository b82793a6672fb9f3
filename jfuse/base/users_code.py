"""The user's code that jfuse calls: rules, passes, hooks, metrics, iterators over data. Its exceptions are theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from jfuse.base.errors import JfuseError

_MARK = "jfuse_given"


@contextmanager
def users_code() -> Iterator[None]:
    """Inside the `with` the user's code runs: its exceptions pass through jfuse's functions unchanged.

    The frames alone do not show this: the code may be in a library, written in C, or refuse its arguments.
    """
    try:
        yield
    except JfuseError:
        raise
    except Exception as error:
        setattr(error, _MARK, True)
        raise


def is_users(error: Exception) -> bool:
    """Whether the user's code has raised an exception, as far as `users_code` knows."""
    return getattr(error, _MARK, False)


def is_ours(function: object) -> bool:
    """Whether a function comes with jfuse."""
    return (getattr(function, "__module__", None) or "").startswith("jfuse.")


def as_users(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose exceptions are the user's."""

    @wraps(function, assigned=())
    def called(*args: Any, **kwargs: Any) -> Any:
        with users_code():
            return function(*args, **kwargs)

    return called


def users_elements(data: Iterable[Any], name: str) -> Iterator[Any]:
    """The elements. An error of the code that gives them passes, and says in a note which one it was about to give.

    name: of the data, for that note.
    """
    with users_code():
        elements = iter(data)
    last, number = object(), 0
    while True:
        try:
            with users_code():
                element = next(elements, last)
        except Exception as error:
            error.add_note(f"jfuse asked for item {number} of {name}; this error is of the code that gives it")
            raise
        if element is last:
            return
        yield element
        number += 1
