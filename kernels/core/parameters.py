"""`Parameters` of a function, where one that is annotated with a dataclass stands for the fields of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any


@dataclass(frozen=True)
class Parameters:
    """The parameters of a function; one that is annotated with a dataclass is replaced by the fields of that.

    So functions of a family share their parameters, and callers name each field as if it were a parameter.
    positional, keywords: the parameters with the fields. own: the function's. groups: the dataclasses, by parameter.
    """

    function: Callable[..., Any]
    positional: tuple[inspect.Parameter, ...]
    keywords: Mapping[str, inspect.Parameter]
    own: tuple[inspect.Parameter, ...]
    groups: Mapping[str, Any]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Parameters:
        """The parameters of a function by kind; for one that is a dataclass its fields."""
        own = tuple(inspect.signature(function).parameters.values())
        kinds = {p.name: _dataclass_of(p, function) for p in own}
        groups = {name: kind for name, kind in kinds.items() if kind is not None}
        parameters: list[inspect.Parameter] = []
        for parameter in own:
            kind = groups.get(parameter.name)
            parameters += [parameter] if kind is None else [_field(f, parameter.kind) for f in fields(kind)]
        positional = tuple(p for p in parameters if p.kind is not p.KEYWORD_ONLY)
        return cls(function, positional, {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}, own, groups)

    def call(self, operands: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The function's result; a dataclass is made of what is given for its fields."""
        if not self.groups:
            return self.function(*operands, **keywords)
        arguments = dict(zip((p.name for p in self.positional), operands, strict=False)) | dict(keywords)
        for name, kind in self.groups.items():
            arguments[name] = kind(**{f.name: arguments.pop(f.name) for f in fields(kind) if f.name in arguments})
        first = [arguments.pop(p.name) for p in self.own if p.kind is p.POSITIONAL_ONLY]
        return self.function(*first, **arguments)


def _dataclass_of(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    """The dataclass by which a parameter is annotated, None where its annotation is another or none."""
    named = parameter.annotation
    if isinstance(named, str):
        named = getattr(function, "__globals__", {}).get(named)
    return named if isinstance(named, type) and is_dataclass(named) else None


def _field(of: Any, kind: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if of.default is MISSING else of.default
    return inspect.Parameter(of.name, kind, default=default)
