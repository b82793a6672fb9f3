"""Equations that LiteRT computes: those for whose types there is no kernel here, as ops that call back to the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.dims import is_known, symbols_of
from jfuse.ir.graph import Atom, Graph, Op, Params
from jfuse.ir.types import TensorType
from jfuse.running.failing_operator import failing_operator
from jfuse.running.litert_call import LiteRtCall, litert_call
from jfuse.running.worker import LiteRtFailed

_MOST_SHAPES = 8  # of one equation, for each of which an interpreter is kept


@dataclass(frozen=True, eq=False)
class Hosted(Op):
    """The op of equations that run in LiteRT. Its operands are the graph's inputs; constants stand in the graph.

    states: the positions of the inputs and outputs that are one operand updated in place, by input. errors: exceptions
    from callbacks, since XLA passes on their text alone.
    """

    graph: Graph
    states: Mapping[int, int]
    limits: Limits = DEFAULT_LIMITS
    errors: list[JfuseError] = field(default_factory=list, init=False, repr=False)
    _calls: dict[tuple[tuple[int, ...], ...], LiteRtCall] = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        """The printed name: the equations' ops."""
        return "litert." + "+".join(dict.fromkeys(eqn.op.name for eqn in self.graph.eqns))

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The types that the equations have."""
        return tuple(atom.type for atom in self.graph.outputs)

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """LiteRT's results. `params["shapes"]`: those of the results, in numbers where a program is traced."""
        if not any(isinstance(i, jax.core.Tracer) for i in inputs):
            return self._on_host(*map(np.asarray, inputs))
        types = [atom.type for atom in self.graph.outputs]
        shapes = [jax.ShapeDtypeStruct(s, t.dtype.numpy) for s, t in zip(params["shapes"], types, strict=True)]
        if all(is_known(d) for i in inputs for d in np.shape(i)):
            self._call([np.shape(i) for i in inputs])  # what LiteRT refuses is told now, not from within XLA
        with jax.enable_x64(True):
            return _call_back(self._on_samples, inputs, shapes)

    def _call(self, shapes: Sequence[tuple[int, ...]]) -> LiteRtCall:
        key = tuple(shapes)
        if key not in self._calls:
            sizes: dict[str, int] = {}
            for var, shape in zip(self.graph.inputs, shapes, strict=True):
                own = ((str(d), n) for d, n in zip(var.type.shape, shape, strict=True) if symbols_of(d) == {str(d)})
                sizes |= {name: int(n) for name, n in own}
            if len(self._calls) == _MOST_SHAPES:
                self._calls.clear()
            self._calls[key] = litert_call(self.graph, self.states, sizes, self.limits)
        return self._calls[key]

    def _on_host(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        try:
            return self._call([a.shape for a in arrays])(arrays)
        except JfuseError as error:
            if isinstance(error, LiteRtFailed) and not self.states:
                eqn = failing_operator(self.graph, arrays, error, self.limits)
                error.where = None if eqn is None else f"{eqn.op.name} {eqn.source}".strip()
            error.where = error.where or str(self.graph.eqns[0].source) or None
            self.errors.append(error)
            raise

    def _on_samples(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The results for arrays with further axes in front, which `vmap` adds: one call for each place on them."""
        fronts = [a.shape[: a.ndim - var.type.rank] for a, var in zip(arrays, self.graph.inputs, strict=True)]
        front = np.broadcast_shapes(*fronts)
        if not front:
            return self._on_host(*arrays)
        inner = [a.shape[len(f) :] for a, f in zip(arrays, fronts, strict=True)]
        flat = [np.broadcast_to(a, (*front, *i)).reshape(-1, *i) for a, i in zip(arrays, inner, strict=True)]
        rows = self._call(inner).rows([[np.asarray(a[n], order="C") for a in flat] for n in range(int(np.prod(front)))])
        return tuple(np.stack(column).reshape(*front, *column[0].shape) for column in zip(*rows, strict=True))


def _call_back(
    function: Callable[..., tuple[np.ndarray, ...]], inputs: Sequence[Any], results: Sequence[jax.ShapeDtypeStruct]
) -> tuple[Any, ...]:
    """`jax.pure_callback`; 64-bit numbers go as pairs of 32 bits, as jax narrows them where the user's x64 is off."""
    dtypes = [np.dtype(i.dtype) for i in inputs]
    result_dtypes = [np.dtype(r.dtype) for r in results]

    def on_host(*arrays: Any) -> tuple[np.ndarray, ...]:
        whole = [_joined(np.asarray(a), dtype) for a, dtype in zip(arrays, dtypes, strict=True)]
        return tuple(map(_split, function(*whole)))

    sent = [
        jax.lax.bitcast_convert_type(i, np.uint32) if _is_wide(d) else i for i, d in zip(inputs, dtypes, strict=True)
    ]
    shapes = [
        jax.ShapeDtypeStruct((*r.shape, 2), np.uint32) if _is_wide(d) else r
        for r, d in zip(results, result_dtypes, strict=True)
    ]
    returned = jax.pure_callback(on_host, tuple(shapes), *sent, vmap_method="expand_dims")
    return tuple(
        jax.lax.bitcast_convert_type(f, d) if _is_wide(d) else f for f, d in zip(returned, result_dtypes, strict=True)
    )


def _is_wide(dtype: np.dtype[Any]) -> bool:
    return dtype.itemsize == 8 and dtype.kind in "iuf"


def _joined(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    return np.ascontiguousarray(array).view(dtype)[..., 0] if _is_wide(dtype) else array


def _split(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, order="C")[..., None].view(np.uint32) if _is_wide(array.dtype) else array
