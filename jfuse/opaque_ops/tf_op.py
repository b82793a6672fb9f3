"""TensorFlow ops that no rule spells: they keep TensorFlow's type and stop the conversion if they survive fusing.

TensorFlow itself computes them if a graph runs on arrays. An op that the user allows as a custom operator
(`select_tf_ops`, `custom_ops`) becomes a CustomOp; a loaded file's custom operators are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

import jax

from jfuse.base.errors import LowerError
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Eqn, Graph, Op, Params, Var, arrays_of
from jfuse.ir.registry import register_family
from jfuse.ir.trace import active_trace, is_tracing
from jfuse.ir.types import DType, TensorType
from jfuse.opaque_ops.custom_options import FLEX, flex_node
from jfuse.opaque_ops.state_operands import updated_operands
from jfuse.tf_nodes.single_node import in_f64, run_node


@dataclass(frozen=True, eq=False)
class TfOp(Op):
    """One opaque node's op; `reason` says why its rule did not take it, where there is one.

    node: the NodeDef by itself, serialized; b"" where the node cannot stand alone. draws: results are not a function of
    the operands (TensorFlow calls such ops stateful).
    """

    tf_name: str = field()
    types: tuple[TensorType, ...]
    reason: str = ""
    node: bytes = b""
    draws: bool = False

    @property
    def name(self) -> str:
        """The name in the printed program: `tf.` and TensorFlow's name, as `tf.Erf`."""
        return f"tf.{self.tf_name}"

    def map_types(self, change: Callable[[TensorType], TensorType]) -> TfOp:
        """The same op with its results' types changed, and in f64 where f32 becomes that."""
        is_wide = bool(self.node) and change(TensorType((), DType.f32)).dtype is DType.f64
        return replace(self, types=tuple(map(change, self.types)), node=in_f64(self.node) if is_wide else self.node)

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The types that TensorFlow inferred for the node."""
        return self.types

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """TensorFlow's results for arrays; on the Vars of a trace recorded again. LowerError while jax traces."""
        if any(isinstance(i, Var) for i in inputs) or (self.draws and is_tracing()):
            return _recorded(self, inputs, params)
        return _computed(self.name, self.node, inputs, self.reason)


@dataclass(frozen=True, eq=False)
class CustomOp(Op):
    """One custom operator: its code as the file has it (`FlexErf`), and the types that the file states for its results.

    node: the TensorFlow node that the operator replaces, serialized; b"" if unknown. draws: as above.
    stands_for: the body of the marked function that the operator is made of; None where it is made of a node.
    is_stubbed: the source computes something else in its place, as only the runtime has the operator.
    Parameters: options (the bytes in the file), version, updates (the operands that are states, by position, whose new
    values are the last results).
    """

    code: str = field()
    types: tuple[TensorType, ...]
    node: bytes = b""
    draws: bool = False
    stands_for: Graph | None = None
    is_stubbed: bool = False
    builtin = "CUSTOM"

    @property
    def name(self) -> str:
        """The printed name, `custom.FlexErf`; special characters are escaped as in a URL (%20)."""
        return _PREFIX + _ODD.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode()), self.code)

    @property
    def is_computed_here(self) -> bool:
        """Whether TensorFlow, or the replaced function, computes it; else only the runtime can."""
        return bool(self.node) or self.stands_for is not None or self.code.startswith(FLEX)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The parameters of a custom operator."""
        return {"options": b"", "version": 1, "updates": ()}

    def map_types(self, change: Callable[[TensorType], TensorType]) -> CustomOp:
        """The same op with its results' types changed."""
        return replace(self, types=tuple(map(change, self.types)))

    def state_operands(self, eqn: Eqn) -> dict[int, int]:
        """For each operand of `updates`, the result that it becomes."""
        return updated_operands(eqn)

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The types that the file, or TensorFlow's node, states for the results."""
        return self.types

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """Evaluate the function that the operator replaces, or run its original node in TensorFlow."""
        if any(isinstance(i, Var) for i in inputs) or (self.draws and is_tracing()):
            return _recorded(self, inputs, params)
        if self.stands_for is not None:
            return tuple(evaluate(self.stands_for, inputs))
        node = flex_node(params["options"]) if self.code.startswith(FLEX) else self.node
        return _computed(self.name, node, inputs, "" if node else "its kernel is known to the runtime alone")


_PREFIX = "custom."
_ODD = re.compile(r"[^A-Za-z0-9_.:/-]")


def _recorded(op: Op, inputs: Sequence[Any], params: Params) -> tuple[Var, ...]:
    atoms = active_trace().operands(inputs)
    return active_trace().append(op, atoms, op.infer(atoms, params, ()), params)


def _computed(name: str, node: bytes, inputs: Sequence[Any], reason: str) -> tuple[Any, ...]:
    traced = any(isinstance(i, jax.core.Tracer) for i in inputs)
    if traced or not node or any(i is None for i in inputs):
        raise LowerError(f"{name} is not an op of TFLite, and jax cannot compute it", found=reason or None)
    return run_node(node, arrays_of(inputs))


register_family("tf.", lambda name, types: TfOp(name.removeprefix("tf."), types))
register_family(_PREFIX, lambda name, types: CustomOp(unquote(name.removeprefix(_PREFIX)), types))
