"""Arrays that a function of jax keeps from call to call: collections of Flax, states of Equinox or Haiku."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import ImportFailed, shown
from jfuse.base.option_values import names_of
from jfuse.frontends.argument_names import path_name
from jfuse.frontends.jaxprs.parts import is_key

_RESULT = "return the results and the new values: (y, new), as apply(..., mutable=[...]) of Flax does"


@dataclass(frozen=True)
class FunctionWithArrays:
    """A function with the arrays that it may change.

    call: takes these arrays as a sequence, then the function's own arguments; gives the results and the arrays as they
        are after the call. named_after: a function with one parameter before those that name the own arguments.
    arrays, names: one for each; `identities` are equal where two functions share an array.
    """

    call: Callable[..., tuple[Any, Sequence[Any]]]
    named_after: Callable[..., Any]
    arrays: tuple[Any, ...]
    names: tuple[str, ...]
    identities: tuple[Hashable, ...]

    def written(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[bool]:
        """Which arrays a call changes, for the types of its arguments.

        Raises ImportFailed where a new value has another shape or type than the one before.
        """
        changes: list[bool] = []

        def traced(arrays: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            _, after = self.call(arrays, *args, **kwargs)
            for name, before, new in zip(self.names, arrays, after, strict=True):
                if jax.typeof(before).str_short() != jax.typeof(new).str_short():
                    raise ImportFailed(
                        f"the state {name!r} changes its type",
                        expected=str(jax.typeof(before)),
                        found=str(jax.typeof(new)),
                        remedy="keep the sizes and the types of states from call to call",
                    )
                changes.append(new is not before)
            return after

        jax.eval_shape(traced, list(self.arrays), *arguments, **named)
        return changes

    def keeping(self, states: Sequence[int]) -> Callable[..., tuple[Any, list[Any]]]:
        """`call` of the arrays at these places alone; all others keep their values."""

        def function(kept: Sequence[Any], *arguments: Any, **named: Any) -> tuple[Any, list[Any]]:
            arrays = list(self.arrays)
            for index, array in zip(states, kept, strict=True):
                arrays[index] = array
            results, after = self.call(arrays, *arguments, **named)
            return results, [after[index] for index in states]

        return function


def with_arrays(function: Any, params: Any, mutable: Any) -> FunctionWithArrays | None:
    """The function with its mutable values: variables of a module of `flax.nnx`, or the mutable part of params.

    Raises ImportFailed if `mutable` has unknown names.
    """
    if mutable is not True:
        mutable = names_of("mutable=", mutable)
    module = nnx_module(function)
    if module is not None:
        return _of_nnx(function, module, mutable)
    if mutable is None or mutable == ():
        return None
    if params is None:
        raise ImportFailed("mutable= names a part of params=, which is missing")
    return _of_params(_applied(function, mutable), params, mutable)


def nnx_module(function: Any) -> Any:
    """The module of `flax.nnx` that this is, or that this is a method of; None for everything else."""
    nnx = sys.modules.get("flax.nnx")
    owner = getattr(function, "__self__", function)
    return owner if nnx is not None and isinstance(owner, nnx.Module) else None


def linen_apply(function: Any, **options: Any) -> Any:
    """`apply` of a module of `flax.linen`, which takes variables first; any other function as it is."""
    linen = sys.modules.get("flax.linen")
    if linen is None or not isinstance(function, linen.Module):
        return function

    def apply(variables: Any, *arguments: Any, **named: Any) -> Any:
        return function.apply(variables, *arguments, **named, **options)

    parameters = inspect.signature(function.__call__).parameters.values()
    first = inspect.Parameter("variables", inspect.Parameter.POSITIONAL_ONLY)
    apply.__signature__ = inspect.Signature([first, *parameters])  # type: ignore[attr-defined]
    return apply


def _applied(function: Any, mutable: Any) -> Any:
    return linen_apply(function, mutable=True if mutable is True else list(mutable))


def _of_params(function: Any, params: Any, mutable: Any) -> FunctionWithArrays:
    if mutable is True:
        changing = params
    else:
        known_keys = list(params) if isinstance(params, Mapping) else []
        missing = [name for name in mutable if name not in known_keys]
        if missing:
            expected = (
                f"keys of params=: {', '.join(map(str, known_keys))}" if known_keys else "keys of a mapping params="
            )
            raise ImportFailed("mutable= names what params= lacks", expected=expected, found=", ".join(missing))
        changing = {name: params[name] for name in mutable}
    paths, tree = jax.tree_util.tree_flatten_with_path(changing)

    def call(arrays: Sequence[Any], *arguments: Any, **named: Any) -> tuple[Any, Sequence[Any]]:
        values = jax.tree_util.tree_unflatten(tree, arrays)
        returned = function(values if mutable is True else {**params, **values}, *arguments, **named)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise ImportFailed(
                "the function does not return its mutable values", found=type(returned).__name__, remedy=_RESULT
            )
        results, new = returned
        leaves, found = jax.tree_util.tree_flatten(
            dict(new) if isinstance(new, Mapping) and mutable is not True else new
        )
        if len(leaves) != len(paths):
            raise ImportFailed(
                "the function returns other arrays than those that are mutable",
                expected=shown(tree),
                found=shown(found),
                remedy="give params= that were initialized with all of them",
            )
        return results, leaves

    stated = [path_name(path) for path, _ in paths]
    names = tuple(f"state_{name}".rstrip("_") if name.isdigit() or not name else name for name in stated)
    return FunctionWithArrays(call, function, tuple(leaf for _, leaf in paths), _apart(names), names)


def _of_nnx(function: Any, module: Any, mutable: Any) -> FunctionWithArrays:
    nnx = sys.modules["flax.nnx"]
    variables = nnx.to_flat_state(nnx.state(module))
    chosen = [(path, v) for path, v in variables if _goes_on(v, mutable, nnx.Param)]
    if mutable and mutable is not True and not chosen:
        type_names = sorted({type(v).__name__ for _, v in variables})
        raise ImportFailed(
            "mutable= names no variable of the module", expected=f"of {', '.join(type_names)}", found=", ".join(mutable)
        )
    paths = [path for path, _ in chosen]
    method = type(module).__call__ if function is module else function.__func__

    def call(arrays: Sequence[Any], *arguments: Any, **named: Any) -> tuple[Any, Sequence[Any]]:
        copy = nnx.clone(module)  # written in the trace that made it
        held = dict(nnx.to_flat_state(nnx.state(copy)))
        nnx.update(copy, nnx.from_flat_state({p: held[p].replace(a) for p, a in zip(paths, arrays, strict=True)}))
        results = method(copy, *arguments, **named)
        after = dict(nnx.to_flat_state(nnx.state(copy)))
        return results, [after[path][...] for path in paths]

    own = {path: id(v) for path, v in _own_variables(nnx, module)}
    names = tuple("_".join(map(str, path)) for path in paths)
    identities = tuple(own.get(path, name) for path, name in zip(paths, names, strict=True))
    return FunctionWithArrays(call, method, tuple(v[...] for _, v in chosen), _apart(names), identities)


def _own_variables(nnx: Any, module: Any) -> list[tuple[tuple[Any, ...], Any]]:
    return [(path, node) for path, node in nnx.iter_graph(module) if isinstance(node, nnx.Variable)]


def _goes_on(variable: Any, mutable: Any, weight: type) -> bool:
    """Whether a variable of nnx may be a state: an array, but no key of random numbers, and of a type asked for."""
    array = variable[...]
    if not isinstance(array, jax.Array | np.ndarray) or is_key(array):
        return False
    if mutable is None or mutable is True:
        return mutable is True or not isinstance(variable, weight)
    return bool({kind.__name__ for kind in type(variable).__mro__} & set(mutable))


def _apart(names: Sequence[str]) -> tuple[str, ...]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ImportFailed(f"two arrays that go on from call to call are named {twice[0]!r}")
    return tuple(names)
