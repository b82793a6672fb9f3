"""The tensors of a checkpoint: `NAME.index`, and `NAME.data-00000-of-00001`, … , of which tensors are views.

Source: tensorflow/core/protobuf/tensor_bundle.proto; core/util/tensor_bundle/tensor_bundle.cc
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.base.errors import ImportFailed
from jfuse.frontends.checkpoint.checksum import masked_crc32c
from jfuse.frontends.checkpoint.sorted_table import read_table, read_varint
from jfuse.ir.types import DType
from jfuse.tf_nodes.attributes import decode_dtype, decode_shape
from jfuse.tf_nodes.messages import message_class
from jfuse.tflite.mapped_file import MappedFile, mapped_of, read_file

_LITTLE_ENDIAN = 0
_COPIED = 2**24  # bytes up to which a file is read into memory; larger ones are mapped, as of many only parts are used


class NotUnderstood(Exception):
    """The file looks valid, but only TensorFlow can read it."""


@dataclass(frozen=True, eq=False)
class TensorBundle:
    """A checkpoint: its entries by key. Its files are read when they are first asked for, or `mapped` if large."""

    prefix: Path
    shards: int
    entries: Mapping[bytes, bytes]
    _files: dict[int, tuple[Any, MappedFile | None]] = field(default_factory=dict)

    @property
    def mapped(self) -> Sequence[MappedFile]:
        """The files that tensors are views of, as far as they are mapped."""
        return mapped_of(mapped for _, mapped in self._files.values())

    def read(self, key: str) -> np.ndarray:
        """The tensor under a key: a read-only view of the file where its elements are numbers that stand aligned.

        Strings are bytes in an array of objects.
        Raises ImportFailed for a key that is not there, and where the files are damaged or shorter than they say;
        NotUnderstood for a variable that was saved in parts.
        """
        entry = self._entry(key)
        shape, dtype = self._shape(entry.shape, key), decode_dtype(entry.dtype)
        if entry.slices:
            raise NotUnderstood(f"the checkpoint holds {key!r} in parts")
        data = self._bytes(entry, key)
        if dtype is DType.string:
            return self._strings(data, shape, entry, key)
        if dtype in (DType.resource, DType.variant):
            raise self._damaged(key, f"a tensor of type {dtype.value}, which has no numbers")
        if masked_crc32c(data) != entry.crc32c:
            raise self._damaged(key, "a wrong checksum")
        item = np.dtype(dtype.numpy)
        self._forget(entry)
        if data.nbytes != math.prod(shape) * item.itemsize:
            raise self._damaged(key, f"{data.nbytes} bytes for {dtype.value}{list(shape)}")
        if data.ctypes.data % item.alignment:
            data = data.copy()
        return data.view(item).reshape(shape)

    def _entry(self, key: str) -> Any:
        if key.encode() not in self.entries:
            raise self._damaged(key, "no such tensor")
        try:
            return message_class("BundleEntryProto").FromString(self.entries[key.encode()])
        except Exception as error:  # protobuf's parser raises errors of its own
            raise self._damaged(key, "no entry of a checkpoint") from error

    def _shape(self, proto: Any, key: str) -> tuple[int, ...]:
        shape = decode_shape(proto)
        if shape is None or None in shape:
            raise self._damaged(key, "a tensor of no known shape")
        return tuple(int(d) for d in shape if d is not None)

    def _bytes(self, entry: Any, key: str) -> np.ndarray:
        """The bytes of an entry."""
        if not 0 <= entry.shard_id < self.shards:
            raise self._damaged(key, f"file {entry.shard_id} of {self.shards}")
        if entry.shard_id not in self._files:
            path = Path(f"{self.prefix}.data-{entry.shard_id:05}-of-{self.shards:05}")
            self._files[entry.shard_id] = read_file(path, _COPIED)
        data, _ = self._files[entry.shard_id]
        file = np.frombuffer(data, np.uint8)
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > len(file):
            raise self._damaged(key, f"bytes {entry.offset} to {entry.offset + entry.size} of {len(file)}")
        return file[entry.offset : entry.offset + entry.size]

    def _forget(self, entry: Any) -> None:
        """Give back the memory in which an entry was read, until it is read again: not all are read whole later."""
        _, mapped = self._files[entry.shard_id]
        if mapped is not None:
            mapped.forget(entry.offset, entry.size)

    def _strings(self, data: np.ndarray, shape: tuple[int, ...], entry: Any, key: str) -> np.ndarray:
        """Their lengths as varints, a checksum of these, then the bytes of one after the other."""
        raw, at, lengths = data.tobytes(), 0, []
        if math.prod(shape) > len(raw):
            raise self._damaged(key, "fewer strings than its shape says")
        result = np.empty(math.prod(shape), object)
        try:
            for _ in range(result.size):
                length, at = read_varint(raw, at)
                lengths.append(length)
        except (IndexError, ValueError):
            raise self._damaged(key, "fewer strings than its shape says") from None
        at += 4
        if at + sum(lengths) != len(raw):
            raise self._damaged(key, "strings of other lengths than it says")
        for i, length in enumerate(lengths):
            result[i] = raw[at : at + length]
            at += length
        # Each length counts as a number of four bytes here (of eight from 2**32 on), and the first checksum as well.
        widths = [np.array(n, "<u8" if n > 0xFFFFFFFF else "<u4").tobytes() for n in lengths]
        first = raw[at - sum(lengths) - 4 : at - sum(lengths)]
        checked = b"".join([*widths, first, raw[len(raw) - sum(lengths) :]])
        if masked_crc32c(np.frombuffer(checked, np.uint8)) != entry.crc32c:
            raise self._damaged(key, "a wrong checksum")
        return result.reshape(shape)

    def _damaged(self, key: str, found: str) -> ImportFailed:
        return ImportFailed(f"the checkpoint {self.prefix} is damaged", where=repr(key), found=found)


def open_bundle(prefix: Path) -> TensorBundle:
    """The checkpoint whose files begin with `prefix`; ImportFailed where its index is missing or damaged."""
    path = Path(f"{prefix}.index")
    entries = read_table(bytes(read_file(path)[0]), str(path))
    try:
        header = message_class("BundleHeaderProto").FromString(entries.get(b"", b""))
    except Exception as error:  # protobuf's parser raises errors of its own
        raise ImportFailed(f"the checkpoint {prefix} is damaged", found="no header") from error
    if header.endianness != _LITTLE_ENDIAN or header.num_shards < 1:
        kind = "big endian" if header.endianness else f"{header.num_shards} files"
        raise ImportFailed(f"the checkpoint {prefix} is of a kind that jfuse does not read", found=kind)
    return TensorBundle(prefix, header.num_shards, entries)
