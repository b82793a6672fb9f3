"""A jax function with the types of its arguments, as a program with one signature for each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from jfuse.base.errors import ImportFailed, JfuseError, LowerError, shown
from jfuse.base.option_values import LARGEST_SIZE, whole
from jfuse.frontends.argument_names import free_name, named_leaves, path_name
from jfuse.frontends.graph_def import is_graph_def
from jfuse.frontends.imported_functions import ImportedFunctions, KeptValue, explicit_states
from jfuse.frontends.jax_functions.exported import is_exported, read_exported
from jfuse.frontends.jax_functions.states import FunctionWithArrays, linen_apply, with_arrays
from jfuse.frontends.jaxprs.node_names import values_of_nodes
from jfuse.frontends.jaxprs.parts import as_array
from jfuse.frontends.jaxprs.walker import JaxWalker, without_rule
from jfuse.frontends.keras import is_keras_model
from jfuse.frontends.nan_weights import NanWeights, address
from jfuse.frontends.pytorch import is_torch_module
from jfuse.frontends.selection import Inputs
from jfuse.frontends.tensorflow.callable import has_functions, is_concrete, is_traceable
from jfuse.ir.dims import Dim, SymbolNames, is_known, symbol, symbols_in
from jfuse.ir.graph import Program, Signature, Var
from jfuse.ir.trace import recording
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.rule_tools.place import notes_kept, sizes_read_from
from jfuse.lowering.rules import JaxRule

DEFAULT_KEY = "serving_default"


@dataclass(frozen=True)
class JaxSignature:
    """A function with its arguments: the types of the flat ones by name, and how they form its arguments.

    read: a function of the same flat arguments that is traced instead, if jax cannot trace the function itself.
    states: values that continue from call to call: the last of the inputs. The function takes their arrays first, and
    returns them after its results.
    shapes: of inputs with open sizes whose symbols may have constraints, which jax needs to know when it traces.
    """

    key: str
    function: Callable[..., Any]
    inputs: Mapping[str, TensorType]
    structure: Any
    read: Callable[..., dict[str, Any]] | None = None
    states: tuple[KeptValue, ...] = ()
    shapes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    name: str = "the function"
    library: ClassVar[str] = "JAX"

    def call(self, *flat: Any) -> dict[str, Any]:
        """The results by name, for arrays in the order of `inputs`."""
        count = len(self.inputs) - len(self.states)
        arguments, named = jax.tree_util.tree_unflatten(self.structure, flat[:count])
        if not self.states:
            return named_results(self.function(*arguments, **named))
        results, after = self.function(flat[count:], *arguments, **named)
        new = zip(self.states, after, strict=True)
        return {**named_results(results), **{s.output: array for s, array in new if s.is_written}}

    def values(self, *flat: Any) -> dict[str, tuple[np.ndarray, ...]]:
        """The results of each equation of the jaxpr, by its name, for arrays in the order of `inputs`."""
        closed = jax.jit(self.read or self.call, keep_unused=True).trace(*flat).jaxpr
        arrays_by_node = jax.jit(lambda *arrays: values_of_nodes(closed, arrays))(*flat)
        return {name: tuple(map(np.asarray, results)) for name, results in arrays_by_node.items()}


def named_results(results: Any) -> dict[str, Any]:
    """The arrays of a result by name: the keys of a mapping, `output_0` and so on of everything else."""
    tree = dict(results) if isinstance(results, Mapping) else results
    return named_leaves(results, jax.tree_util.tree_flatten_with_path(tree)[0])


def jax_signature(
    key: str, function: Callable[..., Any], specs: Any, named_after: Callable[..., Any] | None = None
) -> JaxSignature:
    """The signature of a function for specs: a sequence by position or a mapping by name, of anything nested.

    A leaf is an array, or anything with `shape` (sizes, or symbols of `jax.export.symbolic_shape`) and `dtype`. Leaves
    are named after the function's parameters: x, and params_w for params["w"]; or after those of `named_after` but for
    its first.
    """
    if isinstance(specs, Mapping):
        arguments: tuple[Any, ...] = ()
        named = dict(specs)
        leaves = jax.tree_util.tree_flatten_with_path(named)[0]
        names = [path_name(path) for path, _ in leaves]
    else:
        arguments, named = tuple(specs) if isinstance(specs, Sequence) else (specs,), {}
        parameters = _parameters(named_after or function, len(arguments), skipped=int(named_after is not None))
        leaves = jax.tree_util.tree_flatten_with_path(arguments)[0]
        names = ["_".join(filter(None, (parameters[path[0].idx], path_name(path[1:])))) for path, _ in leaves]
    structure = jax.tree_util.tree_structure((arguments, named))
    if len(set(names)) != len(names):
        raise ImportFailed("two inputs of the function have one name", found=names)
    inputs = {n: _type(n, leaf) for n, (_, leaf) in zip(names, leaves, strict=True)}
    leaf_shapes = {n: tuple(getattr(leaf, "shape", ())) for n, (_, leaf) in zip(names, leaves, strict=True)}
    name = _name_of(named_after or function)
    return JaxSignature(key, function, inputs, structure, shapes=_of_one_scope(leaf_shapes), name=name)


def _of_one_scope(shapes: Mapping[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """The shapes with symbols, if these are all of one scope, as jax requires."""
    scopes = {id(d.scope) for shape in shapes.values() for d in shape if jax.export.is_symbolic_dim(d)}
    texts = any(d is None or isinstance(d, str) for shape in shapes.values() for d in shape)
    return (
        {n: s for n, s in shapes.items() if any(map(jax.export.is_symbolic_dim, s))}
        if len(scopes) == 1 and not texts
        else {}
    )


def exported_signature(key: str, exported: Any) -> JaxSignature:
    """The signature of a result of `jax.export`: args_0 and so on, and its arguments by name."""
    arguments, named = jax.tree_util.tree_unflatten(exported.in_tree, exported.in_avals)
    leaves = jax.tree_util.tree_flatten_with_path(({f"args_{i}": a for i, a in enumerate(arguments)}, named))[0]
    names = [path_name(path[1:]) for path, _ in leaves]
    if len(set(names)) != len(names):
        raise ImportFailed("two inputs of the function have one name", found=names)
    inputs = {n: _type(n, leaf) for n, (_, leaf) in zip(names, leaves, strict=True)}

    def read(*flat: Any) -> dict[str, Any]:
        results = read_exported(exported, flat)
        return named_results(jax.tree_util.tree_unflatten(exported.out_tree, results))

    return JaxSignature(key, exported.call, inputs, exported.in_tree, read, name=str(exported.fun_name))


def jaxpr_signature(key: str, closed: ClosedJaxpr) -> JaxSignature:
    """The signature of a jaxpr: inputs have the names of the traced function's parameters, else args_0 and so on.

    Results are output_0 and so on.
    """
    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.in_avals]
    argument_names = getattr(closed.jaxpr.debug_info, "arg_names", None) or ()
    names = [name if name and name.isidentifier() else f"args_{i}" for i, name in enumerate(argument_names)]
    if len(set(names)) != len(specs):
        names = [f"args_{i}" for i in range(len(specs))]
    inputs = {name: _type(name, spec) for name, spec in zip(names, specs, strict=True)}
    structure = jax.tree_util.tree_structure((tuple(specs), {}))
    return JaxSignature(key, jaxpr_as_fun(closed), inputs, structure)


def is_jax_source(source: Any, selection: Inputs) -> bool:
    """Whether this is a function of jax arrays, a jaxpr, or a mapping of functions, with specs."""
    if isinstance(source, Mapping):
        return bool(source) and all(is_jax_function(f) or is_exported(f) for f in source.values())
    if is_exported(source) or isinstance(source, ClosedJaxpr):
        return True
    return is_jax_function(source) and (selection.specs is not None or hasattr(source, "input_signature"))


def is_jax_function(source: Any) -> bool:
    """Whether this may be a function of jax arrays: a callable that no other frontend takes."""
    is_known = (is_torch_module, is_keras_model, is_concrete, is_traceable, has_functions, is_graph_def)
    return callable(source) and not any(test(source) for test in is_known) and not isinstance(source, type)


def jax_signatures(source: Any, selection: Inputs) -> list[JaxSignature]:
    """The signatures of a function, or of a mapping of functions by key, for the selection's specs and params."""
    specs = selection.specs
    if selection.shapes or selection.batch is not None:
        raise ImportFailed("shapes= and batch= are of other sources", remedy="state the sizes in the specs")
    parts = source if isinstance(source, Mapping) else {DEFAULT_KEY: source}
    missing = [key for key in selection.signatures or () if key not in parts]
    if missing:
        raise ImportFailed(f"the source has no signature {missing[0]!r}", expected=f"one of {list(parts)}")
    chosen = {k: part for k, part in parts.items() if selection.signatures is None or k in selection.signatures}
    if isinstance(source, ClosedJaxpr):
        if specs is not None or selection.params is not None or selection.mutable is not None:
            raise ImportFailed("specs=, params= and mutable= are for functions: a jaxpr states its own inputs")
        return [jaxpr_signature(key, part) for key, part in chosen.items()]
    if all(map(is_exported, parts.values())):
        if specs is not None or selection.params is not None or selection.mutable is not None:
            raise ImportFailed(
                "specs=, params= and mutable= are for functions: a result of jax.export states its own inputs"
            )
        return [exported_signature(key, part) for key, part in chosen.items()]
    if not isinstance(source, Mapping):
        specs = {DEFAULT_KEY: source.input_signature if specs is None else specs}
    elif not isinstance(specs, Mapping) or set(specs) != set(source):
        known_keys = list(specs) if isinstance(specs, Mapping) else specs
        raise ImportFailed("specs= needs an entry for each function", expected=list(source), found=known_keys)
    return _of_functions(chosen, specs, selection)


def _of_functions(functions: Mapping[str, Any], specs: Mapping[str, Any], selection: Inputs) -> list[JaxSignature]:
    """A signature for each function, which share the arrays that any of them writes."""
    holders = {key: with_arrays(f, selection.params, selection.mutable) for key, f in functions.items()}
    signatures: list[JaxSignature] = []
    names: dict[Hashable, str] = {}
    written: dict[str, list[bool]] = {}
    for key, function in functions.items():
        holder = holders[key]
        if holder is None:
            applied = linen_apply(function)
            plain = applied if selection.params is None else partial(applied, selection.params)
            signatures.append(jax_signature(key, plain, specs[key]))
            continue
        signature = jax_signature(key, holder.call, specs[key], holder.named_after)
        arguments, named = jax.tree_util.tree_unflatten(signature.structure, _arrays(signature))
        with _tracing(signature):
            written[key] = holder.written(arguments, named) if holder.arrays else []
        names.update({i: n for i, n, w in zip(holder.identities, holder.names, written[key], strict=True) if w})
        signatures.append(signature)
    inputs = {name for s in signatures for name in s.inputs}
    names = {i: free_name(n, {*inputs, *names.values()}) if n in inputs else n for i, n in names.items()}
    return [_keeping(s, holders[s.key], names, written.get(s.key, [])) for s in signatures]


def _keeping(
    signature: JaxSignature, holder: FunctionWithArrays | None, names: Mapping[Hashable, str], written: Sequence[bool]
) -> JaxSignature:
    """The signature with those arrays as states that have a name, as some function writes them."""
    if holder is None:
        return signature
    indices = [i for i, identity in enumerate(holder.identities) if identity in names]
    if not indices:
        return replace(signature, function=lambda *args, **named: holder.call(holder.arrays, *args, **named)[0])
    states = tuple(
        KeptValue(names[holder.identities[i]], np.asarray(as_array(holder.arrays[i])), written[i]) for i in indices
    )
    types = {s.input: _type(s.name, s.initial) for s in states}
    return replace(signature, function=holder.keeping(indices), inputs={**signature.inputs, **types}, states=states)


def import_functions(
    signatures: Sequence[JaxSignature], rules: Mapping[str, JaxRule], params: Any = None
) -> ImportedFunctions:
    """The functions with a program that has a graph for each signature.

    params: the first argument of the functions, which names their constants.
    Raises ImportFailed where a function cannot be traced, LowerError where a primitive has no TFLite spelling.
    """
    nans = NanWeights(_names_in_memory(params))
    with notes_kept() as notes:
        imported = tuple(_import_one(s, rules, nans) for s in signatures)
    functions = {s.key: s for s in signatures}
    return ImportedFunctions(
        Program(imported), functions, (*notes, *nans.notes()), explicit_states(s.states for s in signatures)
    )


def _names_in_memory(params: Any) -> dict[int, str]:
    """Map the memory address of each array in params to its name."""
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    arrays = [(path, as_array(leaf)) for path, leaf in leaves]
    return {address(a): f"params{jax.tree_util.keystr(path)}" for path, a in arrays if isinstance(a, np.ndarray)}


def _import_one(signature: JaxSignature, rules: Mapping[str, JaxRule], nans: NanWeights) -> Signature:
    with _tracing(signature):
        traced = jax.jit(signature.read or signature.call, keep_unused=True).trace(*_arrays(signature))
    output_names = tuple(traced.out_info)
    names = SymbolNames()
    variables = [Var(t, n) for n, t in signature.inputs.items()]
    names.reserve(symbols_in(tuple(v.type.shape for v in variables)))
    with recording(names=names) as trace, sizes_read_from(variables):
        try:
            walker = JaxWalker(rules, nans=nans, has_sizes_of_users=bool(signature.shapes))
            results = walker.results(traced.jaxpr, variables)
        except LowerError as error:
            others = sorted(without_rule(traced.jaxpr, rules))
            if others:
                error.found = f"{error.found}; nothing spells {', '.join(others)}"
            raise
        graph = trace.finish(signature.key, variables, results)
    order = jax.tree_util.tree_leaves({n: i for i, n in enumerate(output_names)})
    named = tuple(output_names[i] for i in order)
    return Signature(signature.key, graph, tuple(signature.inputs), named)


def _arrays(signature: JaxSignature) -> list[jax.ShapeDtypeStruct]:
    shapes = signature.shapes
    return [jax.ShapeDtypeStruct(shapes.get(n, t.shape), t.dtype.numpy) for n, t in signature.inputs.items()]


@contextmanager
def _tracing(signature: JaxSignature) -> Iterator[None]:
    """Errors of the user's code, which tracing runs, as an ImportFailed that names the function."""
    try:
        yield
    except JfuseError:
        raise
    except Exception as error:
        raise ImportFailed(
            f"jax cannot trace {signature.name} for {', '.join(map(str, signature.inputs.values()))}",
            found=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
            remedy=_remedy(error),
        ) from error


def _remedy(error: Exception) -> str:
    """Suggest a remedy for a tracing error; for an undecided comparison of open sizes, a constraint."""
    undecided = re.search(r"comparison '(.+?)' ([<>]=?|==) '(.+?)' is inconclusive", str(error))
    if undecided is None or undecided[2] not in ("<=", ">="):
        return "try it under jax.jit with the same specs; a size that decides how it computes must be a number"
    left, sign, right = undecided.groups()
    return (
        f'promise it with the symbols: jax.export.symbolic_shape("...", constraints=["{left} {sign} {right}"]); '
        "all symbols of one function are of one such call"
    )


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
        expected = "a number, None, or a symbol of jax.export.symbolic_shape"
        raise ImportFailed(f"the input {name!r} has no such size", expected=expected, found=shown(size)) from error


def _parameters(function: Callable[..., Any], count: int, skipped: int = 0) -> list[str]:
    try:
        positional = [p.name for p in inspect.signature(function).parameters.values() if p.kind < p.VAR_POSITIONAL]
        parameters = positional[skipped:]
    except (TypeError, ValueError):
        parameters = []
    return parameters[:count] if len(parameters) >= count else [f"args_{i}" for i in range(count)]


def _name_of(function: Callable[..., Any]) -> str:
    function = getattr(function, "func", function)  # of a partial
    return str(getattr(function, "__name__", type(function).__name__))
