"""The file's entry CONVERSION_METADATA: which kind of source was converted, and with which options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import flatbuffers
import numpy as np

from jfuse.tflite.write.flat_table import table

NAME = "CONVERSION_METADATA"
_API_VERSION = 2


class SourceKind(IntEnum):
    """Type of the source: the numbers of `ModelType` in conversion_metadata.fbs."""

    SAVED_MODEL = 1
    KERAS_MODEL = 2
    CONCRETE_FUNCTIONS = 3
    JAX = 6


OPTIMIZATIONS = {"float16": 1001, "dynamic": 1002, "int8": 1003, "int16x8": 1004, "trained": 2000}
"""The schema's `ModelOptimizationMode` of each recipe."""


@dataclass(frozen=True)
class Conversion:
    """Content of the metadata entry.   version: of TensorFlow or jax, whichever made the source"""

    kind: SourceKind
    version: str
    recipe: str | None = None
    allows_custom_ops: bool = False
    selects_tf_ops: bool = False
    forces_tf_ops: bool = False

    def to_bytes(self) -> np.ndarray:
        """The entry's flatbuffer, u8[n].

        Source: tflite/schema/conversion_metadata.fbs
        """
        builder = flatbuffers.Builder(256)
        version = builder.CreateString(self.version)
        environment = table(builder, ((0, "offset", version), (1, "u32", _API_VERSION), (2, "i32", int(self.kind))), 4)
        modes: Sequence[int] = [] if self.recipe not in OPTIMIZATIONS else [OPTIMIZATIONS[self.recipe]]
        builder.StartVector(4, len(modes), 4)
        for mode in reversed(modes):
            builder.PrependInt32(mode)
        vector = builder.EndVector()
        flags = (self.allows_custom_ops, self.selects_tf_ops, self.forces_tf_ops)
        fields = ((0, "offset", vector), *((i, "bool", flag) for i, flag in enumerate(flags, 1)))
        options = table(builder, fields, 5)
        builder.Finish(table(builder, ((0, "offset", environment), (1, "offset", options)), 2))
        return np.frombuffer(bytes(builder.Output()), np.uint8)
