"""The part of JSON Schema that verification.schema.json uses; an unknown word in a schema is an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
_WORDS = {
    "$ref",
    "type",
    "const",
    "enum",
    "anyOf",
    "minimum",
    "items",
    "required",
    "properties",
    "additionalProperties",
}
_NOTES = {"$schema", "title", "$defs"}


def misfits(
    value: Any, schema: dict[str, Any], root: dict[str, Any], place: str = "$", strict: bool = True
) -> Iterator[str]:
    """What of a value does not fit a schema. strict: fields that the schema does not name are misfits as well."""
    assert schema.keys() <= _WORDS | _NOTES, schema.keys()
    if "$ref" in schema:
        yield from misfits(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, place, strict)
    if "anyOf" in schema and all(any(misfits(value, s, root, place, strict)) for s in schema["anyOf"]):
        yield f"{place}: {value!r} is none of {schema['anyOf']}"
    if "type" in schema and not _is(value, schema["type"]):
        yield f"{place}: {value!r} is no {schema['type']}"
        return
    if ("const" in schema and value != schema["const"]) or ("enum" in schema and value not in schema["enum"]):
        yield f"{place}: {value!r} is not as {schema}"
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{place}: {value!r} is below {schema['minimum']}"
    for i, item in enumerate(value if "items" in schema else ()):
        yield from misfits(item, schema["items"], root, f"{place}[{i}]", strict)
    if isinstance(value, dict):
        yield from _fields(value, schema, root, place, strict)


def _fields(
    value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any], place: str, strict: bool
) -> Iterator[str]:
    yield from (f"{place}.{name} is missing" for name in schema.get("required", ()) if name not in value)
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        inner = known.get(name, others)
        if inner is not None:
            yield from misfits(item, inner, root, f"{place}.{name}", strict)
        elif strict and known:
            yield f"{place}.{name} is not in the schema"


def _is(value: Any, names: str | list[str]) -> bool:
    found = [names] if isinstance(names, str) else names
    return any(isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in found)
