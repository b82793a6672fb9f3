"""`tf.lite.experimental`'s names, as far as they have a meaning here."""

from __future__ import annotations

from enum import Enum


class OpResolverType(Enum):
    """Which kernels LiteRT takes; `Interpreter` runs on XLA and takes any of these, which changes nothing."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3
