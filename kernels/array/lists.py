"""`reserve`: the zeros that a TensorList starts from, of a shape that may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.ir.dims import Shape, is_known
from jfuse.ir.graph import Atom, Graph, Op, Params
from jfuse.ir.registry import register_op
from jfuse.ir.trace import active_trace, is_tracing
from jfuse.ir.types import DType, TensorType


@dataclass(frozen=True, eq=False)
class ReserveOp(Op):
    """Zeros of the parameters `shape` and `dtype`, without operands. `scan_to_loops` spells them in builtins."""

    name: str = "reserve"
    builtin: str | None = None

    def __call__(self, shape: Shape, dtype: DType) -> Any:
        """Zeros: a NumPy array where the shape is static, a recorded Var otherwise."""
        return self.run((), {"shape": tuple(shape), "dtype": dtype}, ())[0]

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The type that the parameters state."""
        return (TensorType(params["shape"], params["dtype"]),)

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """Zeros; recorded while a trace is active and the shape is symbolic."""
        shape, dtype = params["shape"], params["dtype"]
        if all(is_known(d) for d in shape):
            return (np.broadcast_to(np.zeros((), dtype.numpy), shape),)
        if is_tracing():
            trace = active_trace()
            return trace.append(self, (), (trace.resolve(TensorType(shape, dtype)),), params)
        return (jnp.zeros(shape, dtype.numpy),)


reserve = register_op(ReserveOp())
