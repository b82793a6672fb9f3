"""A jax function with the types of its arguments, as a program with one signature for each."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import jax
import numpy as np

from jfuse.errors import ImportFailed, JfuseError, LowerError, shown
from jfuse.frontends.argument_names import named_leaves, path_name
from jfuse.frontends.graph_def import is_graph_def
from jfuse.frontends.imported_functions import ImportedFunctions
from jfuse.frontends.jax_functions.exported import is_exported, read_exported
from jfuse.frontends.jaxprs.node_names import values_of_nodes
from jfuse.frontends.jaxprs.parts import as_array
from jfuse.frontends.jaxprs.walker import JaxWalker, without_rule
from jfuse.frontends.keras import is_keras_model
from jfuse.frontends.nan_weights import NanWeights, address
from jfuse.frontends.pytorch import is_torch_module
from jfuse.frontends.selection import Selection
from jfuse.frontends.tensorflow.callable import has_functions, is_concrete, is_traceable
from jfuse.ir.dims import Dim, SymbolNames, is_known, symbol, symbols_in
from jfuse.ir.graph import Program, Signature, Var
from jfuse.ir.trace import recording
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.rule_tools.place import notes_kept, sizes_read_from
from jfuse.lowering.rules import JaxRule
from jfuse.option_values import LARGEST_SIZE, whole

DEFAULT_KEY = "serving_default"


@dataclass(frozen=True)
class JaxSignature:
    """A function with what it takes: the types of its flat arguments by name, and how they form its arguments.

    read: what is traced in its place, of the same flat arguments, where jax does not trace the function itself.
    """

    key: str
    function: Callable[..., Any]
    inputs: Mapping[str, TensorType]
    structure: Any
    read: Callable[..., dict[str, Any]] | None = None
    library: ClassVar[str] = "JAX"

    def call(self, *flat: Any) -> dict[str, Any]:
        """The results by name, for arrays in the order of `inputs`."""
        arguments, named = jax.tree_util.tree_unflatten(self.structure, flat)
        return named_results(self.function(*arguments, **named))

    def values(self, *flat: Any) -> dict[str, tuple[np.ndarray, ...]]:
        """The results of each equation of the jaxpr, by its name, for arrays in the order of `inputs`."""
        closed = jax.jit(self.read or self.call, keep_unused=True).trace(*flat).jaxpr
        found = jax.jit(lambda *arrays: values_of_nodes(closed, arrays))(*flat)
        return {name: tuple(map(np.asarray, results)) for name, results in found.items()}


def named_results(results: Any) -> dict[str, Any]:
    """The arrays of a result by name: the keys of a mapping, `output_0` and so on of everything else."""
    tree = dict(results) if isinstance(results, Mapping) else results
    return named_leaves(results, jax.tree_util.tree_flatten_with_path(tree)[0])


def jax_signature(key: str, function: Callable[..., Any], specs: Any) -> JaxSignature:
    """The signature of a function for specs: a sequence by position or a mapping by name, of anything nested.

    A leaf is an array, or anything with `shape` (sizes, or symbols of `jax.export.symbolic_shape`) and `dtype`. Leaves
    are named after the function's parameters: x, and params_w for params["w"].
    """
    if isinstance(specs, Mapping):
        arguments: tuple[Any, ...] = ()
        named = dict(specs)
        leaves = jax.tree_util.tree_flatten_with_path(named)[0]
        names = [path_name(path) for path, _ in leaves]
    else:
        arguments, named = tuple(specs) if isinstance(specs, Sequence) else (specs,), {}
        known = _parameters(function, len(arguments))
        leaves = jax.tree_util.tree_flatten_with_path(arguments)[0]
        names = ["_".join(filter(None, (known[path[0].idx], path_name(path[1:])))) for path, _ in leaves]
    structure = jax.tree_util.tree_structure((arguments, named))
    if len(set(names)) != len(names):
        raise ImportFailed("two inputs of the function have one name", found=names)
    inputs = {n: _type(n, leaf) for n, (_, leaf) in zip(names, leaves, strict=True)}
    return JaxSignature(key, function, inputs, structure)


def exported_signature(key: str, exported: Any) -> JaxSignature:
    """The signature of what `jax.export` made: args_0 and so on, and what it takes by name."""
    arguments, named = jax.tree_util.tree_unflatten(exported.in_tree, exported.in_avals)
    leaves = jax.tree_util.tree_flatten_with_path(({f"args_{i}": a for i, a in enumerate(arguments)}, named))[0]
    names = [path_name(path[1:]) for path, _ in leaves]
    if len(set(names)) != len(names):
        raise ImportFailed("two inputs of the function have one name", found=names)
    inputs = {n: _type(n, leaf) for n, (_, leaf) in zip(names, leaves, strict=True)}

    def read(*flat: Any) -> dict[str, Any]:
        results = read_exported(exported, flat)
        return named_results(jax.tree_util.tree_unflatten(exported.out_tree, results))

    return JaxSignature(key, exported.call, inputs, exported.in_tree, read)


def is_jax_source(source: Any, selection: Selection) -> bool:
    """Whether this is a function of jax arrays, or a mapping of such, with what it takes."""
    if isinstance(source, Mapping):
        return bool(source) and all(is_jax_function(f) or is_exported(f) for f in source.values())
    if is_exported(source):
        return True
    return is_jax_function(source) and (selection.specs is not None or hasattr(source, "input_signature"))


def is_jax_function(source: Any) -> bool:
    """Whether this may be a function of jax arrays: a callable that no other frontend takes."""
    is_known = (is_torch_module, is_keras_model, is_concrete, is_traceable, has_functions, is_graph_def)
    return callable(source) and not any(test(source) for test in is_known) and not isinstance(source, type)


def jax_signatures(source: Any, selection: Selection) -> list[JaxSignature]:
    """The signatures of a function, or of a mapping of functions by key, for the selection's specs and params."""
    specs = selection.specs
    if selection.shapes or selection.batch is not None:
        raise ImportFailed("shapes= and batch= are of other sources", remedy="state the sizes in specs=")
    if is_exported(source) or (isinstance(source, Mapping) and all(map(is_exported, source.values()))):
        if specs is not None or selection.params is not None:
            raise ImportFailed("specs= and params= are of functions: what jax.export made states its own")
        parts = source if isinstance(source, Mapping) else {DEFAULT_KEY: source}
        found = [exported_signature(key, part) for key, part in parts.items()]
    elif not isinstance(source, Mapping):
        specs = source.input_signature if specs is None else specs
        found = [jax_signature(DEFAULT_KEY, _with_params(source, selection.params), specs)]
    else:
        if not isinstance(specs, Mapping) or set(specs) != set(source):
            known = list(specs) if isinstance(specs, Mapping) else specs
            raise ImportFailed("specs= needs an entry for each function", expected=list(source), found=known)
        found = [jax_signature(k, _with_params(f, selection.params), specs[k]) for k, f in source.items()]
    missing = [key for key in selection.signatures or () if key not in {s.key for s in found}]
    if missing:
        raise ImportFailed(f"the source has no signature {missing[0]!r}", expected=f"one of {[s.key for s in found]}")
    return [s for s in found if selection.signatures is None or s.key in selection.signatures]


def _with_params(function: Callable[..., Any], params: Any) -> Callable[..., Any]:
    nnx = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(function, nnx.Module):  # its variables may be written in the trace that made them
        return _renamed(lambda *args, **named: nnx.clone(function)(*args, **named), type(function).__call__)
    return function if params is None else partial(function, params)


def _renamed(function: Callable[..., Any], like: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the parameters of a method, but for the first."""
    signature = inspect.signature(like)
    function.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return function


def import_functions(
    signatures: Sequence[JaxSignature], rules: Mapping[str, JaxRule], params: Any = None
) -> ImportedFunctions:
    """The functions with a program that has a graph for each signature.

    params: what the functions have as their first argument, which names their constants.
    Raises ImportFailed where a function cannot be traced, LowerError where a primitive has no TFLite spelling.
    """
    nans = NanWeights(_names_in_memory(params))
    with notes_kept() as notes:
        found = tuple(_import_one(s, rules, nans) for s in signatures)
    return ImportedFunctions(Program(found), {s.key: s for s in signatures}, (*notes, *nans.notes()))


def _names_in_memory(params: Any) -> dict[int, str]:
    """What the arrays among params are called, by where they begin in memory."""
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    arrays = [(path, as_array(leaf)) for path, leaf in leaves]
    return {address(a): f"params{jax.tree_util.keystr(path)}" for path, a in arrays if isinstance(a, np.ndarray)}


def _import_one(signature: JaxSignature, rules: Mapping[str, JaxRule], nans: NanWeights) -> Signature:
    specs = [jax.ShapeDtypeStruct(t.shape, t.dtype.numpy) for t in signature.inputs.values()]
    try:
        traced = jax.jit(signature.read or signature.call, keep_unused=True).trace(*specs)
    except JfuseError:
        raise
    except Exception as error:  # tracing runs the user's code
        raise ImportFailed(
            f"jax cannot trace {_name_of(signature.function)} for {', '.join(map(str, signature.inputs.values()))}",
            found=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
            remedy="try it under jax.jit with the same specs; a size that decides how it computes must be a number",
        ) from error
    output_names = tuple(traced.out_info)
    names = SymbolNames()
    variables = [Var(t, n) for n, t in signature.inputs.items()]
    names.reserve(symbols_in(tuple(v.type.shape for v in variables)))
    with recording(names=names) as trace, sizes_read_from(variables):
        try:
            results = JaxWalker(rules, nans=nans).results(traced.jaxpr, variables)
        except LowerError as error:
            others = sorted(without_rule(traced.jaxpr, rules))
            if others:
                error.found = f"{error.found}; nothing spells {', '.join(others)}"
            raise
        graph = trace.finish(signature.key, variables, results)
    order = jax.tree_util.tree_leaves({n: i for i, n in enumerate(output_names)})
    named = tuple(output_names[i] for i in order)
    return Signature(signature.key, graph, tuple(signature.inputs), named)


def _type(name: str, leaf: Any) -> TensorType:
    shape, kind = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or kind is None:
        array = np.asarray(leaf)
        shape, kind = array.shape, jax.dtypes.canonicalize_dtype(array.dtype)
    dims = tuple(_dim(name, i, d) for i, d in enumerate(shape))
    try:
        return TensorType(dims, DType.of(np.dtype(kind)))
    except (TypeError, KeyError, ValueError) as error:
        raise ImportFailed(f"the input {name!r} is of a type that TFLite lacks", found=str(kind)) from error


def _dim(name: str, axis: int, size: Any) -> Dim:
    """A size of an input; one that is open has a name of its own, or that of the input and the axis."""
    if isinstance(size, Integral):
        return whole(f"the size of axis {axis} of the input {name!r}", size, most=LARGEST_SIZE)
    try:
        if size is not None and not isinstance(size, str) and is_known(size):
            raise ValueError
        return symbol(f"{name}_{axis}" if size is None else str(size))
    except ValueError as error:
        wanted = "a number, None, or a symbol of jax.export.symbolic_shape"
        raise ImportFailed(f"the input {name!r} has no such size", expected=wanted, found=shown(size)) from error


def _parameters(function: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = [p.name for p in inspect.signature(function).parameters.values() if p.kind < p.VAR_POSITIONAL]
    except (TypeError, ValueError):
        parameters = []
    return parameters[:count] if len(parameters) >= count else [f"args_{i}" for i in range(count)]


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
