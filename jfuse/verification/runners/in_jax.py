"""A function of jax.numpy arrays, computed by jax."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError, VerifyFailed
from jfuse.ir.dims import symbol
from jfuse.ir.types import DType, TensorType
from jfuse.proof.inputs import concrete
from jfuse.running.over_samples import OverSamples, Together
from jfuse.verification.runners.one_by_one import StatelessCalls, one_by_one
from jfuse.verification.subject import Arrays, Calls, Interface


@dataclass(frozen=True)
class InJax:
    """A function of jax.numpy arrays, called by position and jitted where jax can.

    inputs: the types of its arguments by name, in order. key: of its one signature. sizes: for dimensions that are
    open in `inputs`, to find out what the function returns: a mapping's results go by its keys, others by `output_0`
    and so on.
    """

    function: Callable[..., Any]
    inputs: Mapping[str, TensorType]
    sizes: Mapping[str, int] = field(default_factory=dict)
    key: str = "serving_default"
    name: str = "JAX"

    program = None

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """The one signature, with the results that `jax.eval_shape` gives."""
        specs = [jax.ShapeDtypeStruct(concrete(t.shape, self.sizes), t.dtype.numpy) for t in self.inputs.values()]
        try:
            results = jax.eval_shape(self.function, *specs)
        except Exception as error:  # the user's code
            raise JfuseError(
                f"the function {_name_of(self.function)} has other inputs than the other side",
                expected=[f"{name}: {t}" for name, t in self.inputs.items()],
                found=" ".join(str(error).split())[:300],
                remedy="give the function an attribute input_signature, or compare it with a model of the same inputs",
            ) from error
        return {self.key: Interface(self.inputs, tuple(_named(results)))}

    @cached_property
    def _jitted(self) -> Callable[..., Any]:
        return jax.jit(self.function)

    def start(self) -> Calls:
        """Start a row of calls without states."""
        return StatelessCalls(self._run)

    def _run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        arguments = [inputs[name] for name in self.inputs]
        with jax.default_matmul_precision("highest"):
            try:
                results = self._jitted(*arguments)
            except (TypeError, ValueError, jax.errors.JAXTypeError, jax.errors.JaxRuntimeError) as error:
                raise VerifyFailed(
                    f"the function {_name_of(self.function)} fails", found=" ".join(str(error).split())[:300]
                ) from error
        return {name: np.asarray(result) for name, result in _named(results).items()}

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls in one program, where jax can trace the function; else one after the other."""
        outputs = None if in_a_row else self._together.run([inputs[name] for name in self.inputs])
        return one_by_one(self, inputs, key, in_a_row) if outputs is None else dict(outputs)

    def singly(self, key: str) -> str | None:
        """Why samples run one after the other."""
        return self._together.why_not

    @cached_property
    def _together(self) -> Together:
        return Together(lambda: OverSamples(lambda *args: _named(self.function(*args)), wide=False))


def stated_inputs(function: Callable[..., Any]) -> dict[str, TensorType] | None:
    """The types that a function's `input_signature` states (anything with shape and dtype, None where open), if any."""
    stated = getattr(function, "input_signature", None)
    if stated is None:
        return None
    names = parameter_names(function, len(stated))
    return {n: _type_of(spec, n) for n, spec in zip(names, stated, strict=True)}


def parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """The names of a function's first parameters, `args_0` and so on where it does not name them."""
    try:
        parameters: Sequence[inspect.Parameter] = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = ()
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return named[:count] if len(named) >= count else [f"args_{i}" for i in range(count)]


def _type_of(spec: Any, name: str) -> TensorType:
    shape = tuple(symbol(f"{name}_{axis}") if d is None else int(d) for axis, d in enumerate(spec.shape))
    dtype = getattr(spec.dtype, "as_numpy_dtype", spec.dtype)  # TensorFlow's dtypes tell NumPy's
    return TensorType(shape, DType.of(dtype))


def _named(results: Any) -> dict[str, Any]:
    if isinstance(results, Mapping):
        return {str(key): results[key] for key in sorted(results)}
    leaves = jax.tree_util.tree_leaves(results)
    return {f"output_{i}": leaf for i, leaf in enumerate(leaves)}


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
