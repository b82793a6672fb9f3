"""A module of StableHLO as a function of jax arrays: traced by jax it is a jaxpr, as the source's own function is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from jfuse.base.errors import ImportFailed
from jfuse.frontends.stablehlo import (  # noqa: F401  # register
    control,
    elementwise,
    products,
    reductions,
    scatters,
    shapes,
)
from jfuse.frontends.stablehlo.rules import DIRECT, READERS
from jfuse.frontends.stablehlo.values import as_array

_RETURNS = frozenset({"stablehlo.return", "func.return"})


@dataclass(frozen=True)
class Module:
    """A module by its portable artifact, as `jax.export` serializes it.   platforms: for which it has code"""

    data: bytes
    platforms: Sequence[str] = ("cpu",)

    @cached_property
    def _context(self) -> Any:
        return mlir.make_ir_context()

    @cached_property
    def _functions(self) -> dict[str, Any]:
        try:
            module = stablehlo.deserialize_portable_artifact(self._context, self.data)
        except Exception as error:  # jaxlib's own, of several types
            raise ImportFailed(
                "the StableHLO of the source cannot be read by this jax",
                found=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
                remedy=DIRECT,
            ) from error
        self.__dict__["_kept"] = module  # its operations do not keep it
        return {str(ir.StringAttr(f.attributes["sym_name"]).value): f for f in module.body.operations}

    def __call__(self, *arguments: Any) -> list[Any]:
        """The results of the main function for jax arrays. Raises ImportFailed for operators without a reader."""
        with self._context, ir.Location.unknown(self._context):
            main = self._functions["main"]
            missing = sorted(_operators(self._functions.values()) - READERS.keys() - _RETURNS)
            if missing:
                raise ImportFailed(f"StableHLO's {', '.join(missing)} cannot be read", remedy=DIRECT)
            operands = [*self._platform(main), *arguments]
            return [as_array(v) for v in _Run(self._functions).function(main, operands)]

    def _platform(self, main: Any) -> list[Any]:
        """The number of the platform, where the function asks for it."""
        first = main.arguments[0].type if len(main.arguments) else None
        names = [] if "arg_attrs" not in main.attributes else [str(a) for a in main.attributes["arg_attrs"]]
        if first is None or not names or "_platform_index" not in names[0]:
            return []
        return [np.asarray(self.platforms.index("cpu") if "cpu" in self.platforms else 0, np.int32)]


def _operators(functions: Any) -> set[str]:
    """The names of all operators, in regions too."""
    names: set[str] = set()
    pending = [f for f in functions]
    while pending:
        op = pending.pop().operation
        if op.name != "func.func":
            names.add(op.name)
        pending += [inner for region in op.regions for block in region.blocks for inner in block.operations]
    return names


@dataclass
class _Run:
    """One run of a function.   values: of what is computed so far, in this function"""

    functions: dict[str, Any]
    values: dict[Any, Any] = field(default_factory=dict)

    def function(self, function: Any, arguments: Sequence[Any]) -> list[Any]:
        """The results of a function, which sees none of the values around its call."""
        return _Run(self.functions).region(function.regions[0], arguments)

    def call(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """The results of a function of the module."""
        return self.function(self.functions[name], arguments)

    def region(self, region: Any, arguments: Sequence[Any]) -> list[Any]:
        """The results of a region of one block, which sees the values around it."""
        (block,) = region.blocks
        inner = _Run(self.functions, dict(zip(block.arguments, arguments, strict=True)) | self.values)
        for op in block.operations:
            operands = [inner.values[o] for o in op.operands]
            if op.operation.name in _RETURNS:
                return operands
            results = READERS[op.operation.name](inner, op, *operands)
            results = results if isinstance(results, list | tuple) else [results]
            inner.values |= dict(zip(op.results, results, strict=True))
        return []

    def value(self, value: Any) -> Any:
        """Result of an earlier operator."""
        return self.values[value]

    def on_numbers(self, region: Any, numbers: Sequence[Any]) -> list[Any]:
        """The results of a region for numbers, computed now."""
        with jax.ensure_compile_time_eval():
            return [np.asarray(v) for v in self.region(region, numbers)]
