"""Arguments of docstrings as the tables of the API page.

A docstring states them as `name: text` or `name, other: text`, several in a paragraph. Here each becomes a row of the
section that mkdocstrings draws as a table.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from textwrap import dedent
from typing import Any

import griffe

_SHORT = 60  # characters: such a text is repeated
_ERRORS = re.compile(r"(?<=\.) (?=(?:Raises|Returns) )")


class Arguments(griffe.Extension):
    """Turns the paragraphs about arguments into sections `Args` or `Attributes`."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Of a function its parameters."""
        _rewrite(func, "Args", {parameter.name for parameter in func.parameters})

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Of a class its fields."""
        _rewrite(cls, "Attributes", {name for name, member in cls.members.items() if member.is_attribute})


def _rewrite(of: griffe.Object, title: str, names: Collection[str]) -> None:
    if of.docstring is not None and names:
        of.docstring.value = with_section(of.docstring.value, title, names)


def with_section(text: str, title: str, names: Collection[str]) -> str:
    """A docstring with a section for what it says of these names, at its end."""
    name = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    start = re.compile(rf"(?:(?<=[.;)] )|(?<=   )|^)((?:{name})(?:, (?:{name}))*): ")
    rest, rows = list[str](), list[tuple[str, str]]()
    for paragraph in dedent_after_first(text).rstrip().split("\n\n"):
        lines = paragraph.split("\n")
        first = next((i for i, line in enumerate(lines) if start.search(line)), None)
        if first is None or paragraph.lstrip().startswith(("```", ">>>", "- ")):
            rest.append(paragraph)
            continue
        before, *pieces = start.split(" ".join(line.strip() for line in lines[first:]))
        kept = "\n".join([*lines[:first], before.strip()]).strip()
        rest += [kept] if kept else []
        for group, about in zip(pieces[::2], pieces[1::2], strict=True):
            about, *errors = _ERRORS.split(about.strip().rstrip(";"), maxsplit=1)
            first, *others = group.split(", ")
            same = about if len(about) < _SHORT else f"see `{first}`"
            rows += [(first, about), *((each, same) for each in others)]
            rest += errors
    section = [f"{title}:", *(f"    {each}: {about}" for each, about in rows)]
    return "\n\n".join([*rest, "\n".join(section)] if rows else rest)


def dedent_after_first(text: str) -> str:
    """The text without the indentation of the lines after the first."""
    first, _, others = text.partition("\n")
    return f"{first}\n{dedent(others)}" if others else first
