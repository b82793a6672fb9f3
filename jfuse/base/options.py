"""Objects of options: the name, default and text of each option stands once, in a field of one of them.

Docstrings, the flags of the command line (`jfuse/cli/flags.py`), the page docs/options.md and the errors about unknown
keywords are made from the fields.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar, dataclass_transform

from jfuse.base.errors import JfuseError, UnknownOption, need_choice, shown
from jfuse.base.option_values import need_truth

T = TypeVar("T")

OBJECTS: dict[str, type] = {}
"""The classes of options by name."""


@dataclass(frozen=True)
class OptionText:
    """The text of an option, and how the command line takes it.

    text: one line, for `--help`. more: further sentences, for docstrings and the page. flag: None for the field's name
    with dashes, "" for none. choices: all values, where they are few; offers: those that a shell completes.
    takes: the type of a word, by default that of the option's default; many: several words make one value.
    read: makes the value of the word or words; raises ValueError where it cannot. typer: arguments of `typer.Option`.
    """

    text: str
    more: str = ""
    flag: str | None = None
    choices: Sequence[Any] = ()
    offers: Sequence[str] = ()
    takes: type | None = None
    many: bool = False
    read: Callable[[Any], Any] | None = None
    typer: Mapping[str, Any] = field(default_factory=dict)

    def flag_of(self, name: str) -> str:
        """The flag of an option of this name; "" for none."""
        return f"--{name.replace('_', '-')}" if self.flag is None else self.flag


def option(
    text: str,
    more: str = "",
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    kw_only: bool = True,
    **shell: Any,
) -> Any:
    """A field of an object of options.   shell: as `OptionText` has them, and what `typer.Option` takes besides"""
    own = {name: shell.pop(name) for name in tuple(shell) if name in OptionText.__dataclass_fields__}
    given = {"default": default} if default_factory is MISSING else {"default_factory": default_factory}
    about = OptionText(text, more, typer=shell, **own)
    return field(**given, kw_only=kw_only, metadata={"option": about})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, field))
def options(made: type[T]) -> type[T]:
    """Make a class a frozen dataclass of options, each with its text in the docstring, and checked.

    Its values are checked as it is made: choices are some of them, and truth values are nothing else. Keywords that it
    lacks are an UnknownOption.
    """
    made = dataclass(frozen=True, kw_only=True)(made)
    lines = (f"{f.name}: {t.text}{' ' * bool(t.more)}{t.more}" for f, t in texts_of(made))
    made.__doc__ = "\n".join((f"{inspect.cleandoc(made.__doc__ or '')}\n", *lines))
    init, names = made.__init__, {f.name for f in fields(made)}  # type: ignore[arg-type]  # a dataclass since this line

    @wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs.keys() - names:
            raise unknown_option(made, name, kwargs[name])
        init(self, *args, **kwargs)
        for of, about in texts_of(made):
            value = getattr(self, of.name)
            if about.choices and not isinstance(value, Mapping):
                need_choice(of.name, value, about.choices)
            if isinstance(of.default, bool):
                need_truth(f"{of.name}=", value)

    made.__init__ = checked  # type: ignore[method-assign]  # checks after dataclass's own
    OBJECTS[made.__name__] = made
    return made


def texts_of(kind: type) -> list[tuple[Field[Any], OptionText]]:
    """The options of a class, with their texts."""
    return [(f, f.metadata["option"]) for f in fields(kind) if "option" in f.metadata]


def default_of(option: Field[Any]) -> Any:
    """The value of an option that is not given."""
    return option.default if option.default_factory is MISSING else option.default_factory()


def given(kind: type[T], keyword: str, value: T | None, **everyday: Any) -> T:
    """The options in `value`, else the defaults, with the keywords that are not None in place of its fields.

    Raises JfuseError for a value of another type.
    """
    if value is not None and not isinstance(value, kind):
        first = next(f.name for f, _ in texts_of(kind))
        remedy = f"{keyword}=jfuse.{kind.__name__}({first}=…)"
        raise JfuseError(f"{keyword}= takes jfuse.{kind.__name__}", found=shown(value), remedy=remedy)
    changes = {name: each for name, each in everyday.items() if each is not None}
    return replace(value or kind(), **changes)  # type: ignore[type-var]  # `options` made it a dataclass


def home_of(name: str) -> type | None:
    """The object of an option."""
    return next((kind for kind in OBJECTS.values() if any(f.name == name for f, _ in texts_of(kind))), None)


def with_objects(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with keywords that are fields of an object of the function put into that object.

    Raises UnknownOption if no object of the function has such a field, JfuseError if the object is given as False.
    """
    signature = inspect.signature(function)
    own = {name: value for name, value in keywords.items() if name in signature.parameters}
    if len(own) == len(keywords):
        return args, keywords
    arguments = dict(signature.bind_partial(*args, **own).arguments)
    for name in keywords.keys() - own.keys():
        home = home_of(name)
        keyword = None if home is None else _parameter_for(function, home)
        if home is None or keyword is None:
            raise unknown_option(function, name, keywords[name])
        current = arguments.get(keyword)
        if current is False:
            raise JfuseError(f"{name}= needs {keyword}=True", found=f"{keyword}=False", remedy="one of the two")
        if not isinstance(current, home):
            current = home() if current is None or current is True else home(current)
        arguments[keyword] = replace(current, **{name: keywords[name]})  # type: ignore[type-var]  # `options` made it
    return (), arguments


def _parameter_for(function: Callable[..., Any], kind: type) -> str | None:
    """The parameter of a function that takes an object of options."""
    parameters = inspect.signature(function).parameters.values()
    return next((p.name for p in parameters if re.search(rf"\b{kind.__name__}\b", str(p.annotation))), None)


def unknown_option(function: Callable[..., Any], name: str, value: object) -> UnknownOption:
    """The error for a keyword that a function lacks: it says which option was meant, or which object has it."""
    parameters = inspect.signature(function).parameters
    homes = {f.name: kind for kind in OBJECTS.values() for f, _ in texts_of(kind)}
    (meant,) = [name] if name in homes else get_close_matches(name, [*parameters, *homes], n=1, cutoff=0.7) or [""]
    remedy = f"{meant}={shown(value) if meant == name else '…'}" if meant else None
    if meant in homes and meant not in parameters:
        takes = _parameter_for(function, homes[meant])
        made = f"jfuse.{homes[meant].__name__}({remedy})"
        remedy = f"a function that takes {made}" if takes is None else f"{takes}={made}"
    return UnknownOption(
        f"{function.__name__} takes no {name}=",
        expected=", ".join(parameters),
        found=f"{name}={shown(value)}",
        remedy=remedy,
    )
