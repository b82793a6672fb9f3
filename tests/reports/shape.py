"""What of a JSON value does not fit a JSON Schema."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator


def misfits(value: Any, schema: dict[str, Any]) -> list[str]:
    """What does not fit; fields that the schema does not name are misfits as well."""
    Draft202012Validator.check_schema(schema)
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(_closed(schema)).iter_errors(value)]


def _closed(schema: Any) -> Any:
    """The schema without further fields."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _closed(each) for key, each in schema.items()}
    return {"additionalProperties": False, **inner} if isinstance(schema.get("properties"), dict) else inner
