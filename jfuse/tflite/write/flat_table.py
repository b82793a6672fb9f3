"""Tables of small flatbuffers, for whose schemas there is no generated code here."""

from __future__ import annotations

from collections.abc import Sequence

import flatbuffers

Field = tuple[int, str, int]
"""A slot, the kind of its value ("offset", "bool", "u8", "i8", "u32" or "i32"), and the value."""


def table(builder: flatbuffers.Builder, fields: Sequence[Field], slots: int) -> int:
    """The place of a table of so many slots. What its offsets lead to must stand there already."""
    builder.StartObject(slots)
    for slot, kind, value in fields:
        if kind == "offset":
            builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        elif kind == "bool":
            builder.PrependBoolSlot(slot, bool(value), False)
        elif kind == "u8":
            builder.PrependUint8Slot(slot, value, 0)
        elif kind == "i8":
            builder.PrependInt8Slot(slot, value, 0)
        elif kind == "u32":
            builder.PrependUint32Slot(slot, value, 0)
        else:
            builder.PrependInt32Slot(slot, value, 0)
    end: int = builder.EndObject()
    return end


def offsets(builder: flatbuffers.Builder, places: Sequence[int]) -> int:
    """The place of a vector of offsets."""
    builder.StartVector(4, len(places), 4)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    end: int = builder.EndVector()
    return end
