"""docs/schemas: a JSON Schema of each format, made from the types of the records that jfuse writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from jfuse.base.json_form import JsonFormat, json_names
from jfuse.benchmark import result
from jfuse.cli import coverage, measuring, rules
from jfuse.differences.result import FORMAT as DIFF
from jfuse.programs.cost import FORMAT as COST
from jfuse.reports.as_json import FORMAT as VERIFICATION
from jfuse.verification.quantization_noise.report import FORMAT as QUANTIZE_REPORT

FORMATS: Mapping[str, JsonFormat] = {
    form.name: form
    for form in (
        VERIFICATION,
        measuring.CHECK,
        COST,
        DIFF,
        QUANTIZE_REPORT,
        result.FORMAT,
        coverage.FORMAT,
        rules.RULES,
        rules.PASSES,
    )
}
_SIMPLE: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0},  # each is a count, a size or a position
    float: {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]},
    NoneType: {"type": "null"},
}


def path(form: JsonFormat) -> str:
    """Where the schema of a format stands, from the root of the repository."""
    return f"docs/schemas/{form.name.removeprefix('jfuse.')}.json"


def text(form: JsonFormat) -> str:
    """The file of a schema."""
    return json.dumps(schema(form), indent=1) + "\n"


def schema(form: JsonFormat) -> dict[str, Any]:
    """The JSON Schema of a format. Further fields are allowed: they do not make a new version."""
    definitions: dict[str, Any] = {}
    records: Sequence[Any] = get_args(form.record) or [form.record]
    shapes = []
    for record in records:
        properties = {"format": {"const": form.name}, "version": {"const": form.version}}
        properties |= _properties(record, definitions) if record else {}
        properties |= {name: _of(hint, definitions) for name, hint in form.more.items()}
        shapes.append(_object(properties))
    shape = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{form.name}, version {form.version}",
        "$comment": "Made by python -m tests.generated from the records' types.",
    }
    return {**head, **shape, "$defs": {name: definitions[name] for name in sorted(definitions)}}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": dict(properties)}


def _properties(record: type, definitions: dict[str, Any]) -> dict[str, Any]:
    types = get_type_hints(record)
    return {
        name: _of(types.get(attribute) or _result_of(record, attribute), definitions)
        for name, attribute in json_names(record).items()
    }


def _result_of(record: type, attribute: str) -> Any:
    """The type of a property, or of a method's result."""
    member = getattr(record, attribute)
    return get_type_hints(member.fget if isinstance(member, property) else member)["return"]


def _of(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    if isinstance(hint, type) and issubclass(hint, os.PathLike):
        return dict(_SIMPLE[str])
    if origin in (Union, UnionType):
        return {"anyOf": [_of(each, definitions) for each in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple and arguments[-1] is not ...:
        items = [_of(each, definitions) for each in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return {"type": "array", "items": _of(arguments[0], definitions)}
    assert is_dataclass(hint), f"no JSON of {hint}"
    name = hint.__name__  # type: ignore[union-attr]
    if name not in definitions:
        definitions[name] = {}  # a record may have records of its kind
        definitions[name] |= _object(_properties(hint, definitions))  # type: ignore[arg-type]
    return {"$ref": f"#/$defs/{name}"}
