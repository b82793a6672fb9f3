"""The names of the recipes. Nothing slow is imported for them."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

RecipeName: TypeAlias = Literal[
    "float16",
    "dynamic",
    "int8_weights",
    "int4_weights",
    "int4_gptq",
    "int4_blocks",
    "int2_weights",
    "int8",
    "int16x8",
    "npu_symmetric",
    "micro",
]
NAMES: tuple[RecipeName, ...] = get_args(RecipeName)
