"""Classes for TensorFlow's protobuf messages, made without TensorFlow from `messages.proto`.

TensorFlow's own classes cannot be imported without all of TensorFlow. Ours stand in a pool of their own, so that both
can live in one process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

_FILE = "messages.proto"
_PACKAGE = "tensorflow"
_TOKEN = re.compile(r"//[^\n]*|[\w.]+|[{}=;<>,\"]")
_SCALARS = ("double float int64 uint64 int32 fixed64 fixed32 bool string group message bytes uint32 enum "
            "sfixed32 sfixed64 sint32 sint64").split()  # in the order of FieldDescriptorProto.Type  # fmt: skip


@cache
def message_class(name: str) -> Any:
    """The class of a message, by its name in TensorFlow's package: `NodeDef`, `MetaGraphDef.MetaInfoDef`."""
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def as_own(message: Any) -> Any:
    """A message of TensorFlow's in jfuse's class of the same name; messages of different classes do not mix."""
    own = message_class(message.DESCRIPTOR.full_name.removeprefix(f"{_PACKAGE}."))
    return message if isinstance(message, own) else own.FromString(message.SerializeToString())


@cache
def _pool() -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    text = files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    tokens = (t for t in _TOKEN.findall(text[text.index("message ") :]) if not t.startswith("//"))
    file = FileDescriptorProto(name=_FILE, package=_PACKAGE, syntax="proto3")
    for _ in tokens:  # the word "message"
        _read_message(tokens, file.message_type.add(), f".{_PACKAGE}")
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _read_message(tokens: Iterator[str], message: Any, scope: str) -> None:
    """Fill a DescriptorProto from the tokens behind the word "message", as far as its closing brace."""
    message.name = next(tokens)
    scope = f"{scope}.{message.name}"
    oneof = None
    next(tokens)  # {
    while (word := next(tokens)) != "}" or oneof is not None:
        if word == "}":
            oneof = None
        elif word == "message":
            _read_message(tokens, message.nested_type.add(), scope)
        elif word == "oneof":
            oneof = len(message.oneof_decl)
            message.oneof_decl.add(name=next(tokens))
            next(tokens)  # {
        else:
            _read_field(word, tokens, message, scope, oneof)


def _read_field(word: str, tokens: Iterator[str], message: Any, scope: str, oneof: int | None) -> None:
    field = message.field.add(label=3 if word in ("repeated", "map") else 1)
    if word == "map":
        _, key, _, value, _ = (next(tokens) for _ in range(5))
        field.name = next(tokens)
        entry = message.nested_type.add(name=f"{field.name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), 1):
            _set_type(entry.field.add(name=name, number=number, label=1), kind)
        _set_type(field, f"{scope}.{entry.name}")
    else:
        _set_type(field, next(tokens) if word == "repeated" else word)
        field.name = next(tokens)
    next(tokens)  # =
    field.number = int(next(tokens))
    next(tokens)  # ;
    if oneof is not None:
        field.oneof_index = oneof


def _set_type(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS.index(kind) + 1
    else:
        field.type = _SCALARS.index("message") + 1
        field.type_name = kind if kind.startswith(".") else f".{_PACKAGE}.{kind}"
