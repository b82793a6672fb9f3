"""The names of the recipes. Nothing slow is imported for them."""

NAMES = (
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
)
