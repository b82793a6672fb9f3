"""The checksums of TensorFlow's files."""

from __future__ import annotations

import google_crc32c
import numpy as np

from jfuse.ir.contents import blocks

_MASK_DELTA = 0xA282EAD8  # tensorflow/core/lib/hash/crc32c.h


def masked_crc32c(data: np.ndarray) -> int:
    """The CRC-32C (Castagnoli) of bytes, turned and moved as TensorFlow's files keep it.   data: u8[n], read-only"""
    crc = 0
    for block in blocks(data):
        crc = google_crc32c.extend(crc, block)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF
