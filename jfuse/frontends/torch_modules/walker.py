"""From a graph of ATen operators to equations of TFLite ops: each node by its rule, sizes as dimensions."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.base.errors import ImportFailed, LowerError
from jfuse.frontends.jaxprs.in_jax import computed_in_jax
from jfuse.frontends.nan_weights import NanWeights
from jfuse.frontends.torch_modules.control import CONTROL
from jfuse.frontends.torch_modules.jax_functions import function_for
from jfuse.frontends.torch_modules.size_symbols import Symbols
from jfuse.frontends.torch_modules.tensors import array_of, dtype_of, tensor_of
from jfuse.ir.dims import FUNCTIONS, Dim, is_known, quotient, same
from jfuse.ir.graph import Source, Var
from jfuse.ir.trace import at_source
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import type_of
from jfuse.lowering.rule_tools.shape_tensors import size_tensor
from jfuse.lowering.rules import TorchRule

_FOR_STORAGE = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator", "implicit"})
"""Arguments that say where and how elements are stored."""
_OF_SIZES = {"sym_min": FUNCTIONS["min"], "sym_max": FUNCTIONS["max"], "floordiv": quotient}
"""PyTorch's functions of sizes that are others of dimensions."""
_INLINED = frozenset({"wrap_with_set_grad_enabled", "wrap_with_autocast"})


@dataclass(frozen=True)
class TorchWalker:
    """State of one import: rules, symbols, weights with NaN.   stack: the enclosing functions

    clipped: the sizes of kernels, max(X, 0), by the text of the X that PyTorch knows them as.
    """

    rules: Mapping[str, TorchRule]
    symbols: Symbols
    clipped: dict[str, Dim] = field(default_factory=dict)
    stack: tuple[str, ...] = field(default=())
    nans: NanWeights = field(default_factory=NanWeights)

    def results(self, program: Any, inputs: Mapping[str, Var]) -> list[Any]:
        """The flat results of a functional program, None where there is none, for its inputs by name."""
        values: dict[Any, Any] = {}
        held = {**program.state_dict, **program.constants}
        specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
        for node in program.graph.nodes:
            if node.op == "placeholder":
                spec = specs[node.name]
                if node.name in inputs:
                    values[node] = inputs[node.name]
                elif spec.kind.name == "USER_INPUT":
                    values[node] = getattr(spec.arg, "value", None)
                elif isinstance(tensor := held.get(spec.target), Mapping) or hasattr(tensor, "detach"):
                    values[node] = self._looked_at(spec.target, array_of(tensor))
                else:
                    values[node] = None  # a generator: the runtime has its own
        self._refuse_without_rule(program.graph_module, set(inputs))
        return [self._result(r) for r in self._walk(program.graph_module, values)]

    def _looked_at(self, name: str, weights: Any) -> Any:
        """The weights that a module holds under a name, checked for NaNs."""
        if isinstance(weights, np.ndarray):
            self.nans.look_at_constant(f"{name!r} of the module", weights)
        return weights

    def _walk(self, module: Any, values: dict[Any, Any]) -> list[Any]:
        """The results of a graph module, whose placeholders have values."""
        outputs: list[Any] = []
        for node in _needed(module.graph):
            _refuse_missing(node, values)
            if node.op == "get_attr":
                value = _attribute(module, node.target)
                values[node] = self._looked_at(node.target, array_of(value)) if hasattr(value, "detach") else value
            elif node.op == "call_function":
                values[node] = self._call(node, values)
            elif node.op == "output":
                value = _replaced(node.args[0], values)
                outputs = list(value) if isinstance(value, list | tuple) else [value]  # a condition gives one value
        return outputs

    def _call(self, node: Any, values: Mapping[Any, Any]) -> Any:
        args, named = _replaced(node.args, values), _replaced(node.kwargs, values)
        if node.target is operator.getitem:
            return args[0][args[1]]
        with at_source(Source(place_of(node), _name(node), self.stack)):
            if _short(node) in _INLINED:
                return self._inlined(args)
            if _short(node) in CONTROL and not _is_operator(node):
                return CONTROL[_short(node)](self._run, *args, **named)
            if not _is_operator(node):
                result = _OF_SIZES.get(_short(node), node.target)(*args, **named)
                return self.clipped.get(str(result), result) if _is_open(result) else result
            if _name(node).startswith("aten.sym_size"):
                return args[0].shape[args[1]]
            if _name(node).startswith("aten.sym_numel"):
                return type_of(args[0]).size
            if not any(isinstance(v, Var) or _is_open(v) for v in _leaves((args, named))) and not _draws(node):
                return _computed(node, args, named)
            return self._by_rule(node, args, named)

    def _inlined(self, args: Sequence[Any]) -> list[Any]:
        """The results of a graph within a context that concerns gradients or precision."""
        first_graph = next(i for i, a in enumerate(args) if hasattr(a, "graph"))
        return self._run(args[first_graph], args[first_graph + 1 :])

    def _run(self, inner: Any, arguments: Sequence[Any]) -> list[Any]:
        """The results of a graph module for the values of its placeholders."""
        placeholders = [n for n in inner.graph.nodes if n.op == "placeholder"]
        return self._walk(inner, dict(zip(placeholders, arguments, strict=True)))

    def _by_rule(self, node: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        rule = rule_for(_name(node), self.rules)
        positional, keywords = _bound(node.target._schema, args, named)
        if rule is None:
            return self._in_jax(node, positional, keywords)
        unread = [k for k, v in keywords.items() if k not in rule.attributes and k not in _FOR_STORAGE and v]
        if unread:
            raise LowerError(f"{_name(node)} with {unread[0]}={keywords[unread[0]]!r} has no TFLite spelling")
        attributes = {k: _plain(v) for k, v in keywords.items() if k in rule.attributes}
        result = rule(*map(_plain, positional), **attributes)
        stated = node.meta.get("val")
        _check(result, stated, node)
        if isinstance(result, Var) and hasattr(stated, "shape"):
            self.clipped.update(self.symbols.clipped(result.shape, stated.shape))
        return result

    def _in_jax(self, node: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """The results of an operator without a rule, by a function of jax."""
        function = function_for(_name(node))
        assert function is not None  # `results` asked for it
        stated = node.meta.get("val")
        kinds = [dtype_of(v.dtype) if hasattr(v, "dtype") else None for v in _leaves(stated)]
        keywords = {k: _plain(v) for k, v in named.items() if k not in _FOR_STORAGE}
        result = computed_in_jax(function, [_plain(v) for v in args], keywords, kinds)
        _check(result if isinstance(stated, list | tuple) else result[0], stated, node)
        return result if isinstance(stated, list | tuple) else result[0]

    def _refuse_without_rule(self, module: Any, inputs: set[str]) -> None:
        """Raise LowerError for all operators without a rule whose operands are not constant."""
        missing: dict[str, list[Any]] = {}
        for node in self._without_rule(module, lambda n: n.name in inputs):
            missing.setdefault(_name(node).removesuffix(".default"), []).append(node)
        if not missing:
            return
        lines = [
            f"{name} ({len(nodes)}), first at {place_of(nodes[0])}{_line(nodes[0])}" for name, nodes in missing.items()
        ]
        raise LowerError(
            f"{len(missing)} operators of PyTorch have no TFLite spelling"
            if len(missing) > 1
            else f"PyTorch's {next(iter(missing))} has no TFLite spelling",
            found="; ".join(lines),
            remedy=f'a rule of your own, @jfuse.lowers_torch("{next(iter(missing))}")',
        )

    def _without_rule(self, module: Any, is_input: Any) -> Iterator[Any]:
        computed: set[Any] = set()
        for node in _needed(module.graph):
            depends = any(n in computed for n in node.all_input_nodes)
            if (node.op == "placeholder" and is_input(node)) or depends:
                computed.add(node)
            if node.op != "call_function" or not (depends or _draws(node)):
                continue
            if _short(node) in _INLINED or (_short(node) in CONTROL and not _is_operator(node)):
                for inner in (a for a in node.args if hasattr(a, "op") and a.op == "get_attr"):
                    yield from self._without_rule(_attribute(module, inner.target), lambda n: True)
            elif (
                _is_operator(node)
                and not _name(node).startswith("aten.sym_")
                and not is_spelled(_name(node), self.rules)
            ):
                yield node

    def _result(self, value: Any) -> Any:
        """A result as a Var or an array."""
        if value is None or isinstance(value, Var | np.ndarray):
            return value
        if isinstance(value, int) or _is_open(value):
            size = size_tensor(value, sources())
            return np.asarray(value) if is_known(value) else ops.cast(size, out_data_type=DType.i64)
        return np.asarray(value)


def rule_for(name: str, rules: Mapping[str, TorchRule]) -> TorchRule | None:
    """The rule for an operator and its overload (aten.add.Tensor), or for all its overloads (aten.add)."""
    return rules.get(name) or rules.get(name.rpartition(".")[0])


def is_spelled(name: str, rules: Mapping[str, TorchRule]) -> bool:
    """Whether a rule or a function of jax says an operator."""
    return rule_for(name, rules) is not None or function_for(name) is not None


def _is_open(value: Any) -> bool:
    return not isinstance(value, Var | np.ndarray | np.generic | str | bytes) and not is_known(value)


def _is_operator(node: Any) -> bool:
    return hasattr(node.target, "_schema")


def _refuse_missing(node: Any, values: Mapping[Any, Any]) -> None:
    """Raise LowerError for an operand that is a result which no rule gives."""
    for operand in node.all_input_nodes:
        if operand.target is operator.getitem and values[operand] is None and operand.meta.get("val") is not None:
            raise LowerError(
                f"{_name(operand.args[0])} gives no such result",
                where=place_of(operand),
                found=f"result {operand.args[1]} is needed by {_name(node)}",
                remedy="leave this result out, or compute it from others",
            )


def _draws(node: Any) -> bool:
    """Whether an operator gives other numbers at each call."""
    return any(tag.name == "nondeterministic_seeded" for tag in getattr(node.target, "tags", ()))


def _short(node: Any) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _name(node: Any) -> str:
    """aten.add.Tensor; the name of a Python function."""
    if not _is_operator(node):
        return _short(node)
    return str(node.target)


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _needed(graph: Any) -> list[Any]:
    """The nodes that the results need, in order."""
    needed = {node for node in graph.nodes if node.op == "output"}
    nodes = []
    for node in reversed(graph.nodes):
        if node in needed:
            nodes.append(node)
            needed.update(node.all_input_nodes)
    return nodes[::-1]


def _replaced(value: Any, values: Mapping[Any, Any]) -> Any:
    """A node's argument with the values of other nodes in the place of these."""
    if hasattr(value, "all_input_nodes"):
        return values[value]
    if isinstance(value, Mapping):
        return {k: _replaced(v, values) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(v, values) for v in value]
    if isinstance(value, slice):
        return slice(*(_replaced(v, values) for v in (value.start, value.stop, value.step)))
    return value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _computed(node: Any, args: Any, named: Any) -> Any:
    """The results of an operator of constants, by PyTorch itself."""
    import torch

    with torch.no_grad():
        result = node.target(*_as_torch(args), **_as_torch(named))
    return _from_torch(result)


def _as_torch(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _as_torch(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_as_torch(v) for v in value]
    return tensor_of(value) if isinstance(value, np.ndarray | np.generic) else value


def _from_torch(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_from_torch(v) for v in value]
    return array_of(value) if hasattr(value, "detach") else value


def _bound(schema: Any, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as the schema has them: by position as far as any is given, the others by keyword."""
    keywords = dict(named)
    positional = list(args)
    for position, argument in enumerate(a for a in schema.arguments if not a.kwarg_only):
        if position < len(args):
            continue
        if not any(a.name in keywords for a in list(schema.arguments)[position:] if not a.kwarg_only):
            break
        positional.append(keywords.pop(argument.name, argument.default_value))
    return positional, keywords


def _plain(value: Any) -> Any:
    """An argument without PyTorch's types: dtypes as DTypes, numbers as they are."""
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return dtype_of(value)
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _check(found: Any, stated: Any, node: Any) -> None:
    """Raise ImportFailed where a rule's results are of other types than PyTorch's."""
    pairs = zip(found, stated, strict=False) if isinstance(stated, list | tuple) else ((found, stated),)
    for value, wanted in pairs:
        if value is None or not hasattr(wanted, "dtype"):
            continue
        kind, got = dtype_of(wanted.dtype), type_of(value)
        sizes = list(wanted.shape)
        fits = got.rank == len(sizes) and all(
            not isinstance(size, int) or same(d, size) is not False for d, size in zip(got.shape, sizes, strict=True)
        )
        if got.dtype is not kind or not fits:
            raise ImportFailed(
                f"{_name(node)} was given a type that PyTorch contradicts",
                expected=f"{kind.value} of shape {tuple(map(str, sizes))}",
                found=str(got),
                remedy="report this model: the rule for this operator is wrong",
            )


def place_of(node: Any) -> str:
    """The module that a node stands in, and the node's name: encoder/0/linear."""
    stack = [str(path) for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    module = stack[-1].replace(".", "/") if stack and not stack[-1].startswith("_empty") else ""
    return f"{module}/{node.name}" if module else str(node.name)


def _line(node: Any) -> str:
    """The user's line that called for a node: the last one outside of PyTorch's own files."""
    import torch

    lines = (node.meta.get("stack_trace") or "").splitlines()
    theirs = f'File "{Path(torch.__file__).parent}/'
    own = [i for i, text in enumerate(lines) if text.strip().startswith("File ") and theirs not in text]
    if not own:
        return ""
    code = lines[own[-1] + 1].strip() if own[-1] + 1 < len(lines) else ""
    return f" ({lines[own[-1]].strip()}: {code})"
