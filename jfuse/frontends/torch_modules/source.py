"""A module of PyTorch with its specs, or an exported program, as a program with one signature for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from jfuse.base.errors import ImportFailed
from jfuse.frontends.argument_names import named_leaves
from jfuse.frontends.imported_functions import ImportedFunctions, explicit_states
from jfuse.frontends.nan_weights import NanWeights
from jfuse.frontends.pytorch import is_exported_program
from jfuse.frontends.selection import Inputs
from jfuse.frontends.torch_modules.buffers import (
    WrittenBuffer,
    buffers_of,
    is_write,
    refuse_written_inputs,
)
from jfuse.frontends.torch_modules.export import exported_for, functional, read_program
from jfuse.frontends.torch_modules.packed import packed_to_full_size
from jfuse.frontends.torch_modules.size_symbols import Symbols
from jfuse.frontends.torch_modules.tensors import array_of, dtype_of, tensor_of
from jfuse.frontends.torch_modules.values import values_of
from jfuse.frontends.torch_modules.walker import TorchWalker, is_spelled
from jfuse.ir.dims import SymbolNames, symbols_in
from jfuse.ir.graph import Program, Signature, Var
from jfuse.ir.trace import recording
from jfuse.ir.types import TensorType
from jfuse.lowering.rule_tools.place import note, notes_kept, sizes_read_from
from jfuse.lowering.rule_tools.query import type_of
from jfuse.lowering.rules import TorchRule

DEFAULT_KEY = "serving_default"


@dataclass(frozen=True)
class TorchSignature:
    """A module with its arguments.

    function: computes it eagerly. inputs: the types of its tensors by name, in order. leaves: all its flat
    arguments, None in the place of each of these tensors, and `structure` how they form the arguments. program: what
    torch.export made of it. buffers: those that are states: the last of the inputs, and results as they are after.
    """

    key: str
    function: Any
    inputs: Mapping[str, TensorType]
    leaves: tuple[Any, ...]
    structure: Any
    program: Any
    buffers: tuple[WrittenBuffer, ...] = ()
    library: ClassVar[str] = "PyTorch"

    def call(self, *flat: Any) -> dict[str, Any]:
        """The results by name, for arrays in the order of `inputs`."""
        import torch
        from torch.utils import _pytree as tree

        tensors = iter(flat)
        leaves = [tensor_of(next(tensors)) if leaf is None else leaf for leaf in self.leaves]
        arguments, named = tree.tree_unflatten([None if v is _NOTHING else v for v in leaves], self.structure)
        held = {buffer.target: tensor_of(next(tensors)) for buffer in self.buffers}
        with torch.no_grad(), packed_to_full_size():
            if held:  # the module's own keep what they hold
                results = torch.func.functional_call(self.function, held, arguments, named)
            else:
                results = self.function(*arguments, **named)
        after = {b.output: held[b.target] for b in self.buffers if b.is_written}
        return {name: _value(leaf) for name, leaf in {**named_results(results), **after}.items()}

    def values(self, *flat: Any) -> dict[str, tuple[np.ndarray, ...]]:
        """The results of each operator of the exported program, by its place, for arrays in the order of `inputs`."""
        return values_of(self.program, dict(zip(self.placeholders, map(tensor_of, flat), strict=True)))

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The placeholders of the exported program, one for each of `inputs`."""
        held = {buffer.input: buffer.placeholder for buffer in self.buffers}
        return tuple(held.get(name, name) for name in self.inputs)


_NOTHING = object()
"""An argument that is None."""


def named_results(results: Any) -> dict[str, Any]:
    """The leaves of a module's results by name, without those that are None."""
    from torch.utils import _pytree as tree

    leaves = tree.tree_flatten_with_path(results)[0]
    return named_leaves(results, [(path, leaf) for path, leaf in leaves if leaf is not None])


def _value(leaf: Any) -> np.ndarray:
    return array_of(leaf) if hasattr(leaf, "detach") else np.asarray(leaf)


def import_modules(source: Any, selection: Inputs, rules: Mapping[str, TorchRule]) -> ImportedFunctions:
    """The signatures of a module, of a mapping of modules by key with a mapping of specs, or of a `.pt2` file.

    Raises ImportFailed where torch.export fails, LowerError where operators have no TFLite spelling.
    """
    if selection.shapes or selection.batch is not None or selection.params is not None:
        raise ImportFailed("shapes=, batch= and params= are of other sources", remedy="state the sizes in the specs")
    parts = _parts(source, selection)
    missing = [key for key in selection.signatures or () if key not in parts]
    if missing:
        raise ImportFailed(f"the source has no signature {missing[0]!r}", expected=f"one of {list(parts)}")
    nans = NanWeights()
    with notes_kept() as notes:
        selected = {k: part for k, part in parts.items() if selection.signatures is None or k in selection.signatures}
        exports = {key: _exported(*part, selection.dynamic_shapes, rules) for key, part in selected.items()}
        names = {
            name for export in exports.values() for name in (*_leaves_of(export.plain), *_output_names(export.plain))
        }
        buffers = buffers_of([export.plain for export in exports.values()], names)
        pairs = zip(exports.items(), buffers, strict=True)
        imported = [_import_one(key, export, held, rules, nans) for (key, export), held in pairs]
    program = Program(tuple(signature for signature, _ in imported))
    functions = {function.key: function for _, function in imported}
    return ImportedFunctions(program, functions, (*notes, *nans.notes()), explicit_states(buffers))


def _parts(source: Any, selection: Inputs) -> dict[str, tuple[Any, Any]]:
    """Modules or exported programs with their specs, by key."""
    specs = selection.specs
    if isinstance(source, str | Path):
        if find_spec("torch") is None:
            raise ImportFailed(
                "PyTorch is not installed", expected="it, to read .pt2 files", remedy="pip install jfuse[torch]"
            )
        if not Path(source).is_file():
            raise ImportFailed(f"{source} does not exist")
        return {DEFAULT_KEY: (read_program(Path(source), unsafe=selection.unsafe), specs)}
    if not isinstance(source, Mapping):
        return {DEFAULT_KEY: (source, specs)}
    if not isinstance(specs, Mapping) or set(specs) != set(source):
        known_keys = list(specs) if isinstance(specs, Mapping) else specs
        raise ImportFailed("specs= needs an entry for each module", expected=list(source), found=known_keys)
    return {key: (module, specs[key]) for key, module in source.items()}


@dataclass(frozen=True)
class _Export:
    """A module, or the one of an exported program, and its export.

    plain: the program without operators that write in place. size_names: of open sizes, by argument.
    """

    function: Any
    plain: Any
    size_names: tuple[Mapping[int, str], ...]
    limits: Any


def _exported(source: Any, specs: Any, dynamic_shapes: Any, rules: Mapping[str, TorchRule]) -> _Export:
    if is_exported_program(source):
        if specs is not None or dynamic_shapes is not None:
            raise ImportFailed("specs= and dynamic_shapes= are of modules: an exported program states its own")
        program, function = source, source.module()
        size_names: tuple[Mapping[int, str], ...] = ()
    else:
        if specs is None:
            raise ImportFailed(
                "the inputs of the module are unknown", remedy="inputs=[torch.zeros(…), …], or shapes and dtypes"
            )
        (program, size_names), function = exported_for(source, specs, dynamic_shapes), source
    plain = functional(program, lambda operator: is_spelled(str(operator), rules))
    refuse_written_inputs(plain)
    return _Export(function, plain, size_names, program.range_constraints)


def _leaves_of(plain: Any) -> dict[str, Any]:
    """All flat arguments by name, None for each tensor."""
    specs = [spec for spec in plain.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    return {spec.arg.name: _leaf(spec.arg) for spec in specs}


def _output_names(plain: Any) -> list[str]:
    from torch.utils import _pytree as tree

    structure = plain.call_spec.out_spec
    return list(named_results(tree.tree_unflatten(range(structure.num_leaves), structure)))


def _import_one(
    key: str, export: _Export, buffers: Sequence[WrittenBuffer], rules: Mapping[str, TorchRule], nans: NanWeights
) -> tuple[Signature, TorchSignature]:
    plain = export.plain
    symbols = Symbols.of(plain, export.size_names)
    for limit in symbols.limits(export.limits):
        note(limit)
    placeholders = {node.name: node for node in plain.graph.nodes if node.op == "placeholder"}
    leaves = _leaves_of(plain)
    inputs = {
        name: TensorType(
            symbols.shape(placeholders[name].meta["val"].shape),
            dtype_of(placeholders[name].meta["val"].dtype, f"the input {name!r}"),
        )
        for name, leaf in leaves.items()
        if leaf is None
    }
    inputs |= {buffer.input: type_of(buffer.initial) for buffer in buffers}
    structure = plain.call_spec.in_spec
    signature = TorchSignature(key, export.function, inputs, tuple(leaves.values()), structure, plain, tuple(buffers))
    return _walked(signature, plain, TorchWalker(rules, symbols, nans=nans)), signature


def _leaf(argument: Any) -> Any:
    """None for a tensor; else the number, the text, or _NOTHING."""
    kind = type(argument).__name__
    if kind == "TensorArgument":
        return None
    if kind == "ConstantArgument":
        return _NOTHING if argument.value is None else argument.value
    raise ImportFailed(
        f"the input {argument.name!r} is no tensor", found=kind, remedy="give the module a tensor, or a fixed number"
    )


def _walked(signature: TorchSignature, program: Any, walker: TorchWalker) -> Signature:
    from torch.utils import _pytree as tree

    names = SymbolNames()
    variables = {n: Var(t, n) for n, t in signature.inputs.items()}
    inputs = list(variables.values())
    names.reserve(symbols_in(tuple(v.type.shape for v in inputs)))
    with recording(names=names) as trace, sizes_read_from(inputs):
        results = walker.results(program, dict(zip(signature.placeholders, inputs, strict=True)))
        pairs = list(zip(program.graph_signature.output_specs, results, strict=True))
        after = {spec.target: result for spec, result in pairs if is_write(spec)}
        results = [result for spec, result in pairs if not is_write(spec)]
        named = named_results(tree.tree_unflatten(results, program.call_spec.out_spec))
        named |= {buffer.output: after[buffer.target] for buffer in signature.buffers if buffer.is_written}
        graph = trace.finish(signature.key, inputs, list(named.values()))
    return Signature(signature.key, graph, tuple(signature.inputs), tuple(named))
