"""The definitions of TensorFlow's ops: of those that jfuse knows from a table of its own, of others from TensorFlow."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jfuse.tf_nodes.messages import as_own, message_class
from jfuse.tf_nodes.presence import need_tensorflow

TABLE = "op_defs.txtpb"
"""One OpDef in text form a line, without descriptions; `python -m tests.generated` writes it."""


@cache
def op_def(name: str) -> Any:
    """The OpDef of an op of the table; None for any other."""
    line = _lines().get(name)
    if line is not None:
        from google.protobuf import text_format

        return text_format.Parse(line, message_class("OpDef")())
    return None


def registered_op_def(name: str) -> Any:
    """The OpDef of an op, if need be from TensorFlow's registry, where programs may add ops; None where there is none.

    Raises ImportFailed for an op that only TensorFlow can know, where it is not installed.
    """
    found = op_def(name)
    if found is not None:
        return found
    need_tensorflow(f"jfuse does not know the op {name} by itself")
    from tensorflow.python.framework import op_def_registry

    registered = op_def_registry.get(name)
    return None if registered is None else as_own(registered)


@cache
def _lines() -> dict[str, str]:
    text = files(__package__).joinpath(TABLE).read_text(encoding="utf-8")
    return {line.split('"', 2)[1]: line for line in text.splitlines()}
