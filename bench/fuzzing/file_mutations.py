"""Mutations of .tflite files: of numbers, lengths and offsets where they stand, of whole tables, of any bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import JfuseError
from jfuse.tflite.read.flatbuffer_reader import _Reader

_NUMBERS = (-1, 0, 1, 2, 3, 7, 255, 65536, 2**31 - 1, -(2**31))
_FLOATS = (0.0, -1.0, np.inf, np.nan, 1e30)
_UINT = np.dtype("<u4")
_MOST_KNOWN = 1000  # files whose places are kept


@dataclass
class Places:
    """Where a file's numbers stand, with their dtypes; and where its offsets stand, by what they lead to."""

    numbers: list[tuple[int, np.dtype[Any]]] = field(default_factory=list)
    offsets: dict[Any, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes) -> Places:
        """Of a file; those that are found before its first error, if it has one."""
        reader = _Recorder(data)
        try:
            reader.table(reader.target(0), schema.Model)
        except JfuseError:
            pass
        return reader.places


class _Recorder(_Reader):
    """The reader of jfuse, which notes where it reads."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.places = Places()

    def _set(self, table: Any, field: Any, place: int) -> None:
        if field.scalar is not None and not field.is_vector:
            self.places.numbers.append((place, field.scalar))
        else:
            self.places.offsets.setdefault((field.is_vector, field.scalar, field.table), []).append(place)
        super()._set(table, field, place)

    def _vector(self, field: Any, start: int) -> Any:
        found = super()._vector(field, start)
        self.places.numbers.append((start, _UINT))
        if field.scalar is not None:
            size = field.scalar.itemsize
            self.places.numbers += [(start + 4 + size * i, field.scalar) for i in range(min(len(found), 16))]
        else:
            of = self.places.offsets.setdefault((False, None, field.table), [])
            of += [start + 4 + 4 * i for i in range(len(found))]
        return found


class Mutator:
    """Draws mutations of files."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Places] = OrderedDict()

    def mutated(self, data: bytes, rng: np.random.Generator) -> bytes:
        """Another file."""
        kind = rng.random()
        if kind < 0.15:
            return _other_bytes(data, rng)
        if kind < 0.25:
            return _other_tables(data, rng)
        return self._in_place(data, rng)

    def _in_place(self, data: bytes, rng: np.random.Generator) -> bytes:
        """One to three numbers, lengths or offsets changed where they stand."""
        places = self._known.get(data)
        if places is None:
            places = self._known[data] = Places.of(data)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        copy = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            if any(places.offsets.values()) and rng.random() < 0.2:
                _aim_elsewhere(copy, [*filter(None, places.offsets.values())], rng)
            elif places.numbers:
                at, dtype = places.numbers[int(rng.integers(len(places.numbers)))]
                copy[at : at + dtype.itemsize] = _another(copy, at, dtype, rng)
        return bytes(copy)


def _another(data: bytearray, at: int, dtype: np.dtype[Any], rng: np.random.Generator) -> bytes:
    """Another number in place of the one that stands there."""
    before = np.frombuffer(data, dtype, 1, at)[0]
    if dtype.kind == "f":
        return np.array(_FLOATS[int(rng.integers(len(_FLOATS)))], dtype).tobytes()
    if dtype.kind == "b":
        return np.array(not before).tobytes()
    return np.array(_number(int(before), rng)).astype(dtype).tobytes()


def _aim_elsewhere(data: bytearray, groups: list[list[int]], rng: np.random.Generator) -> None:
    """Let an offset lead where another one of its kind does, or next to where it led."""
    places = groups[int(rng.integers(len(groups)))]
    at, other = (places[int(i)] for i in rng.integers(len(places), size=2))
    target = other + int.from_bytes(data[other : other + 4], "little")
    if at == other:
        target += int(rng.choice([-4, -1, 1, 4]))
    data[at : at + 4] = ((target - at) % 2**32).to_bytes(4, "little")


def _number(value: int, rng: np.random.Generator) -> int:
    return value + int(rng.choice([-1, 1])) if rng.random() < 0.5 else int(rng.choice(_NUMBERS))


def _other_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    copy = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(copy)))
        copy[place] = int(rng.integers(256))
    return bytes(copy)


def _other_tables(data: bytes, rng: np.random.Generator) -> bytes:
    """Fields of tables changed, and elements of vectors dropped, repeated or moved; written again."""
    builder = flatbuffers.Builder(len(data) + 2**12)
    try:
        model = schema.ModelT.InitFromPackedBuf(data, 0)
        for _ in range(int(rng.integers(1, 4))):
            _change_table(model, rng)
        builder.Finish(model.Pack(builder), b"TFL3")
    except Exception:  # the generated module checks nothing that it reads, and writes no numbers out of range
        return _other_bytes(data, rng)
    return bytes(builder.Output())


def _change_table(model: Any, rng: np.random.Generator) -> None:
    """Change one thing of one table."""
    tables = [*_tables(model)]
    table = tables[int(rng.integers(len(tables)))]
    names = [n for n, v in vars(table).items() if v is not None and not isinstance(v, str | bytes)]
    if not names:
        return
    name = names[int(rng.integers(len(names)))]
    value = getattr(table, name)
    if isinstance(value, bool):
        setattr(table, name, not value)
    elif isinstance(value, int):
        setattr(table, name, _number(value, rng))
    elif isinstance(value, float):
        setattr(table, name, float(rng.choice(_FLOATS)))
    elif isinstance(value, np.ndarray | list) and len(value):
        setattr(table, name, _vector(value, rng))


def _vector(value: Any, rng: np.random.Generator) -> Any:
    """One element changed, dropped, repeated or moved."""
    items = list(value)
    place, other = (int(i) for i in rng.integers(len(items), size=2))
    kind = int(rng.integers(4))
    if kind == 0:
        del items[place]
    elif kind == 1:
        items.insert(other, items[place])
    elif kind == 2:
        items[place], items[other] = items[other], items[place]
    elif isinstance(items[place], int | np.integer):
        items[place] = _number(int(items[place]), rng)
    if isinstance(value, np.ndarray):
        with np.errstate(all="ignore"):
            return np.array([int(i) if value.dtype.kind in "iu" else i for i in items]).astype(value.dtype)
    return items


def _tables(found: Any) -> Iterator[Any]:
    """A table and all that hang on it."""
    yield found
    for value in vars(found).values():
        if hasattr(value, "InitFromObj"):
            yield from _tables(value)
        elif isinstance(value, list):
            for item in value:
                if hasattr(item, "InitFromObj"):
                    yield from _tables(item)
