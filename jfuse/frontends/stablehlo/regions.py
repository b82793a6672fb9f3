"""Regions of StableHLO that are one operator of their two arguments."""

from __future__ import annotations

from typing import Any

_SWAPS = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})


def operator_of_two(region: Any) -> str:
    """The name of the operator that a region of two arguments is, "" where it is anything else.

    Sums and products of booleans are "or" and "and"; a comparison has its direction for a name, such as "GE".
    """
    (block,) = region.blocks
    *computed, end = block.operations
    if len(computed) != 1 or len(block.arguments) != 2 or list(end.operands) != list(computed[0].results):
        return ""
    (op,) = computed
    name: str = op.operation.name.removeprefix("stablehlo.")
    given, arguments = list(op.operands), list(block.arguments)
    if given != arguments and not (name in _SWAPS and given == arguments[::-1]):
        return ""
    if name == "compare":
        direction: str = str(op.attributes["comparison_direction"]).split()[-1].rstrip(">")
        return direction
    if str(arguments[0].type) == "tensor<i1>":
        return {"add": "or", "multiply": "and"}.get(name, name)
    return name
