"""`Quantization`: the scales and zero points that map a tensor's integers to real numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

PRINTED_IN_FULL = 16
"""Elements; vectors and constants with more of them print as type, size and digest."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """real = scale * (q - zero_point), per tensor (one entry) or along `axis` (one entry per index).

    scale: rounded to f32, as files keep it. zero_point: one for each scale; a single one is that of all of them.
    minimum, maximum: the range that was found in calibration, for people to read: the runtime does not look at it.
    block_size: so many neighbours along the last axis share one of `block_scale` (f16), which go row by row; 0 without
        blocks.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int = 0
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()
    block_size: int = 0
    block_scale: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("scale", "minimum", "maximum", "block_scale"):
            object.__setattr__(self, name, tuple(np.array(getattr(self, name), np.float32).tolist()))
        if len(self.zero_point) == 1 < len(self.scale):
            object.__setattr__(self, "zero_point", self.zero_point * len(self.scale))

    def __str__(self) -> str:
        zero_point = self.zero_point[:1] if len(set(self.zero_point)) == 1 else self.zero_point
        parts = [f"scale={_vector(self.scale, np.float32)}", f"zero_point={_vector(zero_point, np.int64)}"]
        parts.append(f"axis={self.axis}")
        parts += [f"block_size={self.block_size}"] if self.block_size else []
        others = ("minimum", "maximum", "block_scale")
        parts += [f"{n}={_vector(v, np.float32)}" for n in others if (v := getattr(self, n))]
        return f"{{{' '.join(parts)}}}"

    def long_vectors(self) -> Iterator[np.ndarray]:
        """The vectors that print by digest: f32[n] or i64[n]."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, tuple) and len(value) > PRINTED_IN_FULL:
                yield np.array(value, np.int64 if field.name == "zero_point" else np.float32)


def array_digest(text: str, array: np.ndarray) -> str:
    """Sixteen hex digits that depend on the text of the type and on the contents."""
    digest = hashlib.blake2b(text.encode(), digest_size=8)
    if array.dtype == object:
        for item in array.ravel():
            digest.update(len(item).to_bytes(8, "little") + item)
    else:
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _vector(values: Sequence[float], dtype: type[np.generic]) -> str:
    array = np.array(values, dtype)
    if array.size > PRINTED_IN_FULL:
        text = f"{'f32' if dtype is np.float32 else 'i64'}[{array.size}]"
        return f"const<{text} {array.nbytes}B {array_digest(text, array)}>"
    items = [str(item) for item in array]
    return f"({','.join(items)}{',' if len(items) == 1 else ''})"
