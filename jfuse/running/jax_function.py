"""`JaxFunction`: one signature as a pure function of jax."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from jfuse.base.errors import JfuseError
from jfuse.base.settings import own_settings
from jfuse.ir.dims import is_known, symbols_in
from jfuse.ir.evaluate import large_constants, with_constants
from jfuse.ir.graph import Const, Eqn, Graph, Signature
from jfuse.ir.types import TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.running.partition import Integers, hosted
from jfuse.running.runner import untraceable
from jfuse.tflite.names import Names, equation_name


class JaxFunction:
    """One signature as a pure JAX function, to jit, vmap, differentiate, shard and export.

    `f(*inputs, *states)` returns the tuple `(*outputs, *states)`, in the order of `input_names`, `state_names` and
    `output_names`: states are what a call leaves to the next one, first those of `initial_states`. Arguments are
    converted to the dtypes of the signature, whatever jax's x64 setting is, and open dimensions may have any size in
    each call.

    `f` carries the weights: inside of a program of yours they become constants of it. `f.apply(weights, *inputs,
    *states)` takes them as an argument instead, a mapping by name as `f.weights` has them: so large ones are no part of
    the program, and gradients can be taken of them.

    Loops whose number of turns is computed differentiate forwards only (`jax.jvp`, `jax.jacfwd`), as `lax.while_loop`
    does; recurrent operators and loops of a known length both ways. Integers have no derivative. Equations that LiteRT
    computes are host callbacks: they have no derivative, and `jax.export` cannot serialize them.

    Raises JfuseError where jax cannot trace the graph: result sizes that depend on data, strings.
    """

    def __init__(
        self, signature: Signature, integers: Integers = "own", names: Mapping[int, str] | None = None
    ) -> None:
        """names: of weights, by the identity of their arrays; those that `named_constants` gives where None."""
        graph = hosted(signature.graph, integers=integers)
        reason = untraceable(graph)
        if reason is not None:
            raise JfuseError(
                f"signature {signature.key!r} cannot be traced by jax",
                found=reason,
                remedy="call the model itself: it runs such a graph equation by equation",
            )
        self.input_names = signature.input_names
        self.output_names = signature.output_names
        self.state_names = tuple(state.name for state in signature.states)
        self.initial_states = tuple(state.initial.array for state in signature.states)
        self._types = [var.type for var in graph.inputs]
        arrays = large_constants(graph, above=1)
        if names is None:
            names = {id(const.array): name for name, const in named_constants(signature.graph).items()}
        arrays = [array for array in arrays if id(array) in names]
        self.weights: Mapping[str, np.ndarray] = {names[id(array)]: array for array in arrays}
        self._evaluate = with_constants(graph, arrays)
        self._jitted = jax.jit(self.apply)

    def __repr__(self) -> str:
        taken, outputs = (", ".join((*names, *self.state_names)) for names in (self.input_names, self.output_names))
        return f"JaxFunction({taken} -> {outputs})"

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """The outputs, then the states after the call. args: the inputs, then the states before it."""
        with own_settings(), jax.enable_x64(True):
            return tuple(self._jitted(self.weights, *self._converted(args)))

    def apply(self, weights: Mapping[str, Any], *args: Any) -> tuple[Any, ...]:
        """As a call, with these weights: arrays by name, of the shapes of `self.weights`."""
        if weights.keys() != self.weights.keys():
            raise JfuseError("the weights have other names", expected=list(self.weights), found=list(weights))
        with own_settings(), jax.enable_x64(True), jax.default_matmul_precision("highest"):
            return self._evaluate([weights[name] for name in self.weights], self._converted(args))

    def jaxpr(self, sizes: Mapping[str, int] | None = None) -> ClosedJaxpr:
        """The function as jax traces it, for tools that read or transform jaxprs; weights are its constants.

        sizes: for open sizes, by name; others stay open, as those of `jax.export.symbolic_shape` do.
        Raises JfuseError where jax cannot trace a size that is open.
        """
        types = [t.substitute(sizes or {}) for t in self._types]
        specs = [jax.ShapeDtypeStruct(t.shape, t.dtype.numpy) for t in types]
        weights = list(self.weights.values())

        def traced(*args: Any) -> tuple[Any, ...]:
            return tuple(self._evaluate(weights, args))

        names = [name if name.isidentifier() else f"args_{i}" for i, name in enumerate(self._taken)]
        if len(set(names)) == len(names):
            kinds = inspect.Parameter.POSITIONAL_ONLY
            signature = inspect.Signature([inspect.Parameter(name, kinds) for name in names])
            traced.__signature__ = signature  # type: ignore[attr-defined]
        with own_settings(), jax.enable_x64(True), jax.default_matmul_precision("highest"):
            try:
                return jax.make_jaxpr(traced)(*specs)
            except (TypeError, ValueError, NotImplementedError) as error:  # as jax raises for sizes that it must know
                if all(t.is_static for t in types):
                    raise
                symbols = ", ".join(sorted(symbols_in(tuple(t.shape for t in types))))
                raise JfuseError(
                    "jax cannot trace the function for every size",
                    found=" ".join(str(error).split())[:200],
                    remedy=f"sizes=, a number for each of {symbols}",
                ) from error

    @property
    def _taken(self) -> tuple[str, ...]:
        return (*self.input_names, *self.state_names)

    def _converted(self, args: tuple[Any, ...]) -> list[Any]:
        names = self._taken
        if len(args) != len(names):
            raise JfuseError("the number of arguments differs", expected=", ".join(names), found=len(args))
        with jax.enable_x64(True):
            return [_converted(*each) for each in zip(args, self._types, names, strict=True)]


def _converted(value: Any, expected: TensorType, name: str) -> Any:
    shape = np.shape(value)
    dims = zip(shape, expected.shape, strict=False)
    if len(shape) != expected.rank or any(is_known(d) and is_known(e) and d != e for d, e in dims):
        raise JfuseError(f"{name} has another shape", expected=str(expected), found=list(shape))
    return jnp.asarray(value, expected.dtype.numpy)


def named_constants(graph: Graph) -> dict[str, Const]:
    """The constants of more than one element that are real numbers, by name, in the order of their readers.

    A name is the constant's own, else that of the equation that reads it first, and the operand.
    """
    names, known = Names(), dict[int, tuple[str, Const]]()
    for eqn in all_eqns(graph):
        for i, atom in enumerate(eqn.inputs):
            if isinstance(atom, Const) and _is_real(atom) and id(atom.array) not in known:
                label = atom.name or f"{equation_name(eqn).strip(';')}/{_operand(eqn, i)}"
                known[id(atom.array)] = label, atom
    return {names.unique(label): const for label, const in known.values()}


def _is_real(const: Const) -> bool:
    return const.array.size > 1 and (const.type.dtype.is_float or is_quantized(const.type))


def _operand(eqn: Eqn, index: int) -> str:
    return eqn.op.operand_at(index).name if eqn.op.operands else str(index)
