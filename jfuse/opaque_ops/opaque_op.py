"""Builtins of a .tflite file that jfuse has no op for: kept as they are, options and all, with the file's own types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Atom, Eqn, Graph, Op, Params, Var
from jfuse.ir.registry import register_family
from jfuse.ir.trace import active_trace
from jfuse.ir.types import TensorType
from jfuse.opaque_ops.state_operands import updated_operands

_PREFIX = "opaque."


@dataclass(frozen=True, eq=False)
class OpaqueOp(Op):
    """One operator of a builtin without an op, and the types that the file states for its results.

    Parameters: options, the operator's option table by itself, b"" where it has none; updates, the operands that are
    states, by position, whose new values are the last results. The subgraphs that the table names are the equation's
    bodies, in the order of its fields.
    """

    builtin: str = field()
    types: tuple[TensorType, ...]
    is_kept = True

    @property
    def name(self) -> str:
        """The name in the printed program: `opaque.` and the builtin, as `opaque.stablehlo_add`."""
        return _PREFIX + self.builtin.lower()

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The parameters of an opaque operator."""
        return {"options": b"", "updates": ()}

    def varies(self, eqn: Eqn) -> bool:
        """Whether jax cannot trace the bodies: it cannot trace the op at all."""
        return True

    def map_types(self, change: Callable[[TensorType], TensorType]) -> OpaqueOp:
        """The same op with its results' types changed."""
        return replace(self, types=tuple(map(change, self.types)))

    def state_operands(self, eqn: Eqn) -> dict[int, int]:
        """For each operand of `updates`, the result that it becomes."""
        return updated_operands(eqn)

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The types that the file states for the results."""
        return self.types

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """Record the operator again on the Vars of a trace; LowerError for arrays, as nothing here computes it."""
        if not any(isinstance(i, Var) for i in inputs):
            raise LowerError(
                f"{self.builtin} has no kernel in jfuse", remedy="run the file in LiteRT, as `jfuse.load(path)(x)` does"
            )
        trace = active_trace()
        return trace.append(self, trace.operands(inputs), self.types, params, bodies)


register_family(_PREFIX, lambda name, types: OpaqueOp(name.removeprefix(_PREFIX).upper(), types))
