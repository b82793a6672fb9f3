"""Flags of commands, made from the fields of the objects of options that they take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import Field
from functools import wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from jfuse.base.errors import JfuseError
from jfuse.base.options import OptionText, default_of, texts_of
from jfuse.cli.spelling import as_options


def objects(command: Callable[..., None]) -> Callable[..., None]:
    """A command that has a flag for each option of the objects that it takes, in a group of their name.

    `Annotated[Kind, ("name", …)]` takes these fields of an object alone. What an object refuses is wrong use.
    """
    parameters, made = list[inspect.Parameter](), dict[str, tuple[type, dict[str, OptionText]]]()
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        kind, chosen = _kind(hints[name])
        if not isinstance(kind, type) or not hasattr(kind, "__dataclass_fields__"):
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        known = [(f, t) for f, t in texts_of(kind) if t.flag != "" and (not chosen or f.name in chosen)]
        made[name] = (kind, {f.name: t for f, t in known})
        parameters += [
            inspect.Parameter(
                f.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_flag(kind, f, text, default)
            )
            for f, text in known
            for default in [_word_default(f, text)]
        ]

    @wraps(command)
    def run(**words: Any) -> None:
        values = {name: _made(kind, texts, words) for name, (kind, texts) in made.items()}
        command(**{name: word for name, word in words.items() if name in hints.keys() - made.keys()}, **values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def flag(kind: type, name: str, *names: str) -> Any:
    """The type of a parameter that is one option of an object.   names: of the flag, where it has another here"""
    field, text = next((f, t) for f, t in texts_of(kind) if f.name == name)
    return _flag(kind, field, text, _word_default(field, text), *names)


def _kind(hint: Any) -> tuple[Any, tuple[str, ...]]:
    if get_origin(hint) is not Annotated:
        return hint, ()
    kind, *more = get_args(hint)
    return kind, next((m for m in more if isinstance(m, tuple)), ())


def _word_default(field: Field[Any], text: OptionText) -> Any:
    """The value of an option that is not given, as the command line has it."""
    return None if text.many else default_of(field)


def _flag(kind: type, field: Field[Any], text: OptionText, default: Any, *names: str) -> Any:
    """The type of the words of an option, with its flag."""
    takes = text.takes or (str if text.choices or default is None else type(default))
    typed: Any = list[takes] if text.many else takes  # type: ignore[valid-type]  # a type that is made as it runs
    typed = typed | None if text.many or default is None else typed
    offers = [str(choice) for choice in text.choices if choice is not None] or text.offers
    names = names or ((text.flag_of(field.name),) if takes is not bool or not default else ())
    shell = dict[str, Any](text.typer)
    if offers:
        shell["autocompletion"] = lambda incomplete: [word for word in offers if word.startswith(incomplete)]
    group = kind.__name__.removesuffix("Options")
    return Annotated[typed, typer.Option(*names, help=text.text, rich_help_panel=group, **shell)]


def _made(kind: type, texts: Mapping[str, OptionText], words: Mapping[str, Any]) -> Any:
    """An object of options from the words of its flags. Raises typer.BadParameter for what it does not take."""
    values = {}
    for name, text in texts.items():
        word = words[name]
        if text.many and not word:
            continue
        hint = text.flag_of(name)
        if text.choices and word not in text.choices:
            known = ", ".join(str(choice) for choice in text.choices if choice is not None)
            raise typer.BadParameter(f"{word!r} is none of {known}", param_hint=hint)
        try:
            values[name] = word if text.read is None or word is None else text.read(word)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=hint) from error
    try:
        return kind(**values)
    except JfuseError as error:
        raise typer.BadParameter(as_options(str(error))) from error
