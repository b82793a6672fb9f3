"""Loops, branches and calls of StableHLO."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax
from jaxlib.mlir import ir

from jfuse.base.errors import ImportFailed
from jfuse.frontends.stablehlo.elementwise import named_function
from jfuse.frontends.stablehlo.rules import DIRECT, ModuleReader, reads
from jfuse.frontends.stablehlo.values import as_array

_FOR_COMPILERS = frozenset({"shape_assertion", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})
"""Custom calls that return their operands, or nothing."""


@reads("sdy.mesh", "sdy.sharding_constraint")
def _sharding(reader: ModuleReader, op: Any, *operands: Any) -> Any:
    """Where parts of an array are kept: nothing to compute."""
    return list(operands)


@reads("func.call")
def _call(reader: ModuleReader, op: Any, *operands: Any) -> Any:
    return reader.call(_symbol(op.attributes["callee"]), operands)


def _symbol(attribute: Any) -> str:
    return str(ir.FlatSymbolRefAttr(attribute).value)


@reads("stablehlo.while")
def _while(reader: ModuleReader, op: Any, *operands: Any) -> Any:
    cond, body = op.regions
    start = [as_array(o) for o in operands]
    return list(
        lax.while_loop(
            lambda values: reader.region(cond, list(values))[0],
            lambda values: [as_array(v) for v in reader.region(body, list(values))],
            start,
        )
    )


@reads("stablehlo.case")
def _case(reader: ModuleReader, op: Any, index: Any) -> Any:
    if isinstance(index, np.ndarray):
        return reader.region(op.regions[min(max(int(index), 0), len(op.regions) - 1)], ())
    return lax.switch(index, [lambda r=region: [as_array(v) for v in reader.region(r, ())] for region in op.regions])


@reads("stablehlo.if")
def _if(reader: ModuleReader, op: Any, flag: Any) -> Any:
    yes, no = op.regions
    return lax.cond(flag, *(lambda r=region: [as_array(v) for v in reader.region(r, ())] for region in (yes, no)))


@reads("stablehlo.composite")
def _composite(reader: ModuleReader, op: Any, *operands: Any) -> Any:
    """chlo's functions are jax's; others keep their boundary."""
    name = str(ir.StringAttr(op.attributes["name"]).value)
    body = _symbol(op.attributes["decomposition"])
    stated: Any = ir.DictAttr(op.attributes["composite_attributes"]) if "composite_attributes" in op.attributes else ()
    attributes = {a.name: _plain(a.attr) for a in stated}
    if name == "chlo.top_k":
        return list(lax.top_k(operands[0], int(attributes["k"])))
    if (function := named_function(name)) is not None:
        return function(*operands)
    if name.startswith("chlo."):
        return reader.call(body, operands)

    def decomposition(*arguments: Any, **_: Any) -> tuple[Any, ...]:
        return tuple(reader.call(body, arguments))

    version = int(op.attributes["version"]) if "version" in op.attributes else 0
    marked = lax.composite(decomposition, name, version=version)
    return list(marked(*map(as_array, operands), **attributes))


@reads("chlo.top_k")
def _top_k(reader: ModuleReader, op: Any, x: Any) -> Any:
    return list(lax.top_k(x, int(op.attributes["k"])))


def _plain(attribute: Any) -> Any:
    if isinstance(attribute, ir.StringAttr):
        return str(ir.StringAttr(attribute).value)
    if isinstance(attribute, ir.DenseElementsAttr):
        return np.array(attribute)
    return getattr(attribute, "value", str(attribute))


@reads("stablehlo.custom_call")
def _custom_call(reader: ModuleReader, op: Any, *operands: Any) -> Any:
    name = str(ir.StringAttr(op.attributes["call_target_name"]).value)
    if name in _FOR_COMPILERS:
        return list(operands)[: len(op.results)]
    if name in ("mhlo.topk", "TopK", "stablehlo.dynamic_top_k") and isinstance(operands[-1], np.ndarray):
        return list(lax.top_k(operands[0], int(operands[-1])))
    if (function := named_function(name.replace("mhlo.", "chlo."))) is not None:
        return function(*operands)
    raise ImportFailed(
        f"StableHLO calls {name}, which is code of one platform",
        remedy=DIRECT,
    )
