"""Encodes the user's options for a custom operator as bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jfuse.base.errors import JfuseError
from jfuse.base.users_code import users_code
from jfuse.opaque_ops.custom_options import map_options
from jfuse.passes.options import CustomOptions

Attributes = Callable[[], Mapping[str, Any]]
Written = Callable[[], Mapping[str, Any] | bytes]


def given_options(name: str, given: CustomOptions, attributes: Attributes, written: Written) -> bytes:
    """Encode `custom_ops[name]`: bytes as they are, attributes as TensorFlow's converter writes them.

    attributes: makes the argument of a user's function. written: makes the default, where the user names no options.
    """
    if callable(given):
        known = attributes()
        with users_code():
            given = given(known)
    if given is None or given is True:
        given = written()
    if isinstance(given, Mapping):
        return map_options(given)
    if isinstance(given, bytes):
        return given
    raise JfuseError(
        f"custom_ops[{name!r}] gives no options",
        expected="None, a dict of attributes, bytes, or a function of the attributes that returns one of these",
        found=repr(given),
    )
