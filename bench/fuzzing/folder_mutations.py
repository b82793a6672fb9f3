"""Mutations of SavedModel folders: of messages, of the checkpoint's index and tensors, of whole files and any bytes.

Some have nodes that would work on files of the machine.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from jfuse.base.errors import JfuseError
from jfuse.frontends.checkpoint.checksum import masked_crc32c
from jfuse.frontends.checkpoint.sorted_table import read_table
from jfuse.tf_nodes.messages import message_class

MODEL, INDEX, SHARD = "saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"
_NUMBERS = (-1, 0, 1, 2, 3, 7, 9, 20, 255, 65536, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -1.0, float("inf"), float("nan"), 1e30)
_DEEPER = 0.85  # the share of messages whose own fields are changed, not they as a whole
_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")

Folder = dict[str, bytes]
"""The bytes of the files of a folder, by their paths in it."""


def packed(folder: Mapping[str, bytes]) -> bytes:
    """A folder as one value."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(folder.items()):
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def unpacked(data: bytes) -> Folder:
    """The folder that `packed` made one value of."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def mutated(folder: Mapping[str, bytes], secret: str, rng: np.random.Generator) -> Folder:
    """Another folder.   secret: the path of a file that nothing in a folder may reach"""
    found = dict(folder)
    for _ in range(int(rng.integers(1, 4))):
        change = _CHANGES[int(rng.choice(len(_CHANGES), p=_SHARES))]
        try:
            change(found, secret, rng)
        except (LookupError, JfuseError, ValueError, DecodeError):  # an earlier change has damaged it
            continue
    return found


def _change_model(folder: Folder, secret: str, rng: np.random.Generator) -> None:
    """Something in the messages of the model: nodes, functions, objects, signatures."""
    message = message_class("SavedModel").FromString(folder[MODEL])
    graph = message.meta_graphs[0]
    functions = graph.graph_def.library.function
    parts: list[Any] = [message, graph.object_graph_def]
    parts += [functions[int(i)] for i in rng.integers(len(functions), size=2)] if functions else [graph.graph_def]
    _change_message(parts[int(rng.integers(len(parts)))], _Pool(message, secret), rng)
    folder[MODEL] = message.SerializeToString()


def _arm(folder: Folder, secret: str, rng: np.random.Generator) -> None:
    """A node that reads or writes a file of the machine, before another node of a function or of the graph."""
    message = message_class("SavedModel").FromString(folder[MODEL])
    graph = message.meta_graphs[0].graph_def
    groups = [graph.node, *(f.node_def for f in graph.library.function)]
    nodes = groups[int(rng.integers(len(groups)))]
    inside = nodes is not graph.node
    op, operands = (("WriteFile", 2), ("ReadFile", 1), ("MatchingFiles", 1), ("PrintV2", 1))[int(rng.integers(4))]
    names = [f"armed_{len(nodes)}_{i}" for i in range(operands + 1)]
    for name in names[:-1]:
        constant = nodes.add(name=name, op="Const")
        constant.attr["dtype"].type = constant.attr["value"].tensor.dtype = 7  # DT_STRING
        constant.attr["value"].tensor.string_val.append(secret.encode())
    armed = nodes.add(name=names[-1], op=op, input=[f"{n}:output:0" if inside else n for n in names[:-1]])
    if op == "PrintV2":
        armed.attr["output_stream"].s, armed.attr["end"].s = f"file://{secret}".encode(), b""
    nodes[int(rng.integers(len(nodes)))].input.append(f"^{names[-1]}")
    folder[MODEL] = message.SerializeToString()


def _change_asset(folder: Folder, secret: str, rng: np.random.Generator) -> None:
    """The name of an asset, or what stands in its file."""
    message = message_class("SavedModel").FromString(folder[MODEL])
    files = message.meta_graphs[0].asset_file_def
    if not files:
        return _change_model(folder, secret, rng)
    asset = files[int(rng.integers(len(files)))]
    kind = int(rng.integers(3))
    if kind == 0:
        asset.filename = (secret, f"../../..{secret}", "../saved_model.pb", "", "\0", "x" * 300)[int(rng.integers(6))]
    elif kind == 1:
        asset.tensor_info.name = ("", "nobody:0", ":9", "x" * 300)[int(rng.integers(4))]
    else:
        name = f"assets/{asset.filename}"
        folder[name] = _other_bytes(folder[name], rng)
    folder[MODEL] = message.SerializeToString()
    return None


def _change_index(folder: Folder, secret: str, rng: np.random.Generator) -> None:
    """An entry of the checkpoint's index: its message, its key, or that it is there."""
    entries = read_table(folder[INDEX], INDEX)
    keys = sorted(entries)
    key = keys[int(rng.integers(len(keys)))]
    kind = int(rng.integers(6))
    if kind == 0:
        del entries[key]
    elif kind == 1:
        entries[keys[int(rng.integers(len(keys)))]] = entries[key]
    elif kind == 2:
        entries[_other_bytes(key or b"k", rng)] = entries[key]
    else:
        entry = message_class("BundleEntryProto" if key else "BundleHeaderProto").FromString(entries[key])
        _change_message(entry, _Pool(entry, secret), rng)
        entries[key] = entry.SerializeToString()
    folder[INDEX] = table_of(entries)


def _change_tensor(folder: Folder, secret: str, rng: np.random.Generator) -> None:
    """Bytes of a tensor, with the checksum that they have; of the objects' graph, the message that they are."""
    entries = read_table(folder[INDEX], INDEX)
    keys = [key for key in sorted(entries) if key]
    key = keys[int(rng.integers(len(keys)))]
    entry = message_class("BundleEntryProto").FromString(entries[key])
    shard = folder[SHARD]
    data = shard[entry.offset : entry.offset + entry.size]
    if entry.dtype == 7 and rng.random() < 0.9:  # DT_STRING: one text, behind its length and the checksum of that
        text = message_class("TrackableObjectGraph").FromString(data[_text_of(data) :])
        _change_message(text, _Pool(text, secret), rng)
        data, entry.crc32c = _text_tensor(text.SerializeToString())
    else:
        data = _other_bytes(data, rng)
        entry.crc32c = masked_crc32c(np.frombuffer(data, np.uint8))
    entry.offset, entry.size = len(shard), len(data)
    folder[SHARD] = shard + data
    entries[key] = entry.SerializeToString()
    folder[INDEX] = table_of(entries)


def _change_bytes(folder: Folder, secret: str, rng: np.random.Generator) -> None:
    """Any bytes of any file."""
    name = sorted(folder)[int(rng.integers(len(folder)))]
    folder[name] = _other_bytes(folder[name], rng)


def _change_files(folder: Folder, secret: str, rng: np.random.Generator) -> None:
    """A file that is missing, empty, cut short, or another one's."""
    names = sorted(folder)
    name, other = (names[int(i)] for i in rng.integers(len(names), size=2))
    kind = int(rng.integers(4))
    if kind == 0:
        del folder[name]
    elif kind == 1:
        folder[name] = b""
    elif kind == 2:
        folder[name] = folder[name][: int(rng.integers(len(folder[name]) + 1))]
    else:
        folder[name] = folder[other]


_CHANGES: tuple[Callable[[Folder, str, np.random.Generator], None], ...] = (
    _change_model,
    _arm,
    _change_asset,
    _change_index,
    _change_tensor,
    _change_bytes,
    _change_files,
)
_SHARES = (0.6, 0.06, 0.06, 0.1, 0.1, 0.05, 0.03)


class _Pool:
    """Parts of a message by kind: texts, and messages of each type."""

    def __init__(self, message: Any, secret: str) -> None:
        self.texts = [secret, "", "nobody", "x" * 300, "a\x1b]0;title\x07"]
        self.messages: dict[str, list[Any]] = {}
        for found in _messages(message):
            self.messages.setdefault(found.DESCRIPTOR.full_name, []).append(found)
            for field, value in found.ListFields():
                if field.type == field.TYPE_STRING and not _is_map(field):
                    self.texts += list(value) if field.is_repeated else [value]


def _messages(message: Any) -> Iterator[Any]:
    """A message and all in it."""
    yield message
    for field, value in message.ListFields():
        if _is_map(field):
            of = [value[key] for key in value] if _is_message(field.message_type.fields_by_name["value"]) else []
        else:
            of = [] if not _is_message(field) else list(value) if field.is_repeated else [value]
        for item in of:
            yield from _messages(item)


def _is_message(field: Any) -> bool:
    return bool(field.type == field.TYPE_MESSAGE)


def _is_map(field: Any) -> bool:
    return _is_message(field) and bool(field.message_type.GetOptions().map_entry)


def _change_message(message: Any, pool: _Pool, rng: np.random.Generator) -> None:
    """Change one field of a message, or of one in it."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = fields[int(rng.integers(len(fields)))]
    if _is_map(field):
        _change_map(field, value, pool, rng)
    elif field.is_repeated:
        _change_list(field, value, pool, rng)
    elif _is_message(field):
        _change_one(message, field, value, pool, rng)
    else:
        setattr(message, field.name, _another(field, value, pool, rng))


def _change_one(message: Any, field: Any, value: Any, pool: _Pool, rng: np.random.Generator) -> None:
    if rng.random() < _DEEPER:
        _change_message(value, pool, rng)
    elif rng.random() < 0.5:
        message.ClearField(field.name)
    else:
        value.CopyFrom(_other_message(value, pool, rng))


def _change_list(field: Any, value: Any, pool: _Pool, rng: np.random.Generator) -> None:
    place, other = (int(i) for i in rng.integers(len(value), size=2))
    if rng.random() < _DEEPER:
        if _is_message(field):
            _change_message(value[place], pool, rng)
        else:
            value[place] = _another(field, value[place], pool, rng)
        return
    kind = int(rng.integers(3))
    if kind == 0:
        del value[place]
    elif not _is_message(field):
        value.insert(other, value[place])
    elif kind == 1:
        value.add().CopyFrom(value[place])
    else:
        value[place].CopyFrom(_other_message(value[place], pool, rng))


def _change_map(field: Any, value: Any, pool: _Pool, rng: np.random.Generator) -> None:
    keys = sorted(value)
    key, other = (keys[int(i)] for i in rng.integers(len(keys), size=2))
    of = field.message_type.fields_by_name
    if rng.random() < _DEEPER and _is_message(of["value"]):
        return _change_message(value[key], pool, rng)
    kind = int(rng.integers(3))
    if kind == 0:
        del value[key]
        return None
    name = other if kind == 1 else _another(of["key"], key, pool, rng)
    if _is_message(of["value"]):
        value[name].CopyFrom(value[key])
    else:
        value[name] = _another(of["value"], value[key], pool, rng)
    return None


def _other_message(message: Any, pool: _Pool, rng: np.random.Generator) -> Any:
    known = pool.messages.get(message.DESCRIPTOR.full_name, [message])
    copy = type(message)()
    copy.CopyFrom(known[int(rng.integers(len(known)))])
    return copy


def _another(field: Any, value: Any, pool: _Pool, rng: np.random.Generator) -> Any:
    """Another value of the kind that a field holds."""
    if isinstance(value, str):
        return pool.texts[int(rng.integers(len(pool.texts)))]
    if isinstance(value, bytes):
        return _other_bytes(value or b"\0", rng)
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return _FLOATS[int(rng.integers(len(_FLOATS)))]
    found = value + int(rng.choice([-1, 1])) if rng.random() < 0.5 else _NUMBERS[int(rng.integers(len(_NUMBERS)))]
    low, high = _RANGES.get(field.type, (-(2**31), 2**31 - 1))
    return min(max(found, low), high)


_RANGES = {3: (-(2**63), 2**63 - 1), 4: (0, 2**64 - 1), 6: (0, 2**64 - 1), 7: (0, 2**32 - 1), 13: (0, 2**32 - 1)}
"""Of 64 bits and of unsigned numbers, by the field's type as descriptor.proto numbers it."""


def _other_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    copy = bytearray(data)
    if rng.random() < 0.2:
        return bytes(copy[: int(rng.integers(len(copy) + 1))])
    for _ in range(int(rng.integers(1, 6)) if copy else 0):
        copy[int(rng.integers(len(copy)))] = int(rng.integers(256))
    return bytes(copy)


def table_of(entries: Mapping[bytes, bytes]) -> bytes:
    """A sorted string table of one block."""
    block = _block([*sorted(entries.items())])
    empty = _block([])
    index = _block([(b"\xff", _varint(0) + _varint(len(block) - 5))])
    places = len(block), len(empty) - 5, len(block) + len(empty), len(index) - 5
    return block + empty + index + b"".join(map(_varint, places)).ljust(40, b"\0") + _MAGIC


def _block(entries: Sequence[tuple[bytes, bytes]]) -> bytes:
    data = b"".join(_varint(0) + _varint(len(k)) + _varint(len(v)) + k + v for k, v in entries)
    data += struct.pack("<II", 0, 1) + b"\0"
    return data + struct.pack("<I", masked_crc32c(np.frombuffer(data, np.uint8)))


def _varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def _text_of(data: bytes) -> int:
    """Where the only text of a tensor of texts begins."""
    at = 0
    while data[at] & 0x80:
        at += 1
    return at + 5


def _text_tensor(text: bytes) -> tuple[bytes, int]:
    """A tensor of one text as a checkpoint has it, and its checksum."""
    width = struct.pack("<I", len(text))
    first = struct.pack("<I", masked_crc32c(np.frombuffer(width, np.uint8)))
    data = _varint(len(text)) + first + text
    return data, masked_crc32c(np.frombuffer(width + first + text, np.uint8))
