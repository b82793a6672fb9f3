"""A module of PyTorch as a graph of ATen operators, by torch.export: whole layers, no writing in place."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jfuse.errors import ImportFailed, JfuseError
from jfuse.frontends.torch_modules.kept_layers import keep_layers_of, layers_kept
from jfuse.frontends.torch_modules.open_boxes import any_number_of_boxes
from jfuse.frontends.torch_modules.tensors import tensor_of, torch_dtype
from jfuse.ir.dims import is_known

_FIRST, _OTHER, _APART = 2, 24, 8
"""The sizes with which open dimensions are tried out: of first axes, of others; how far those with names are off."""


@dataclass(frozen=True)
class Arguments:
    """What a module is exported with: examples, which of their sizes stay open, and the names of these by leaf."""

    positional: tuple[Any, ...]
    named: Mapping[str, Any]
    dynamic_shapes: Any
    size_names: tuple[Mapping[int, str], ...]


def arguments_of(module: Any, specs: Any, dynamic_shapes: Any) -> Arguments:
    """The arguments of a module for specs: a sequence by position, or a mapping by name, of anything nested.

    A leaf is a tensor, an array, anything with `shape` (None or a symbol where it is open) and `dtype`, or a value that
    is no tensor, which stays what it is.
    """
    from torch.utils import _pytree as tree

    given = dict(specs) if isinstance(specs, Mapping) else specs
    given = given if isinstance(given, dict | tuple) else tuple(given) if isinstance(given, list) else (given,)
    leaves, structure = tree.tree_flatten(given)
    sizes = _Sizes()
    examples = tree.tree_unflatten([sizes.example(leaf) for leaf in leaves], structure)
    found = tuple(_names(leaf) for leaf in leaves)
    if dynamic_shapes is None:
        dynamic_shapes = _gathered(module, tree.tree_unflatten([sizes.dims(leaf) for leaf in leaves], structure))
    else:
        found = tuple(_dim_names(d) for d in _along(dynamic_shapes, given))
    if isinstance(given, dict):
        return Arguments((), examples, dynamic_shapes, found)
    return Arguments(examples, {}, dynamic_shapes, found)


def _gathered(module: Any, dynamic: Any) -> Any:
    """What torch.export asks for: the arguments that *args takes are one."""
    kinds = [p.kind for p in inspect.signature(module.forward).parameters.values()]
    if isinstance(dynamic, Mapping) or inspect.Parameter.VAR_POSITIONAL not in kinds:
        return dynamic
    first = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    return (*dynamic[:first], tuple(dynamic[first:]))


class _Sizes:
    """Sizes for open dimensions, and PyTorch's Dims of them by name."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.named: dict[str, Any] = {}

    def example(self, leaf: Any) -> Any:
        import torch

        if isinstance(leaf, torch.Tensor) or not _is_spec(leaf):
            return leaf
        if all(isinstance(d, int) for d in leaf.shape) and hasattr(leaf, "__array__"):
            return tensor_of(leaf)
        shape = [self._size(d, axis) for axis, d in enumerate(leaf.shape)]
        return torch.zeros(shape, dtype=torch_dtype(leaf.dtype))

    def _size(self, dim: Any, axis: int) -> int:
        if dim is not None and is_known(dim):
            return int(dim)
        if dim is None:  # torch.export finds out which of them are one: those of one axis may be
            return _FIRST if axis == 0 else _OTHER + axis
        return self.known.setdefault(str(dim), (_FIRST if axis == 0 else _OTHER) + _APART + len(self.known))

    def dims(self, leaf: Any) -> Any:
        import torch
        from torch.export import Dim

        if not _is_spec(leaf) or isinstance(leaf, torch.Tensor):
            return None
        found: dict[int, Any] = {}
        for axis, dim in enumerate(leaf.shape):
            if dim is None:
                found[axis] = Dim.DYNAMIC
            elif not is_known(dim):
                found[axis] = self.named.setdefault(str(dim), Dim(str(dim)))
        return found or None


def _is_spec(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _names(leaf: Any) -> Mapping[int, str]:
    if not _is_spec(leaf):
        return {}
    return {axis: str(d) for axis, d in enumerate(leaf.shape) if d is not None and not isinstance(d, int)}


def _along(dynamic: Any, given: Any) -> list[Any]:
    """The part of `dynamic_shapes` for each leaf of the arguments, in their order."""
    if isinstance(given, Mapping):
        held = dynamic if isinstance(dynamic, Mapping) else {}
        return [part for name, value in given.items() for part in _along(held.get(name), value)]
    if isinstance(given, list | tuple):
        values = list(dynamic.values()) if isinstance(dynamic, Mapping) else list(dynamic or ())
        values += [None] * (len(given) - len(values))
        return [part for value, one in zip(values, given, strict=False) for part in _along(value, one)]
    return [dynamic]


def _dim_names(dynamic: Any) -> Mapping[int, str]:
    """The names of the Dims of one tensor, by axis."""
    pairs = dynamic.items() if isinstance(dynamic, Mapping) else enumerate(dynamic or ())
    return {int(axis): str(d.__name__) for axis, d in pairs if hasattr(d, "__name__")}


def exported(module: Any, arguments: Arguments) -> Any:
    """The ExportedProgram of a module; raises ImportFailed where torch.export cannot make one."""
    import torch

    training = [name or type(module).__name__ for name, part in module.named_modules() if part.training]
    if training:
        raise ImportFailed(
            "the module is in training mode",
            found=f"{training[0]} and {len(training) - 1} more",
            remedy="module.eval()",
        )
    with layers_kept(), any_number_of_boxes(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are of torch's own code
        try:
            return torch.export.export(
                module,
                arguments.positional,
                dict(arguments.named),
                dynamic_shapes=arguments.dynamic_shapes,
                strict=False,
            )
        except JfuseError:
            raise
        except Exception as error:  # exporting runs the user's code
            raise ImportFailed(
                f"torch.export cannot export {type(module).__name__}",
                found=f"{type(error).__name__}: {_message(error)}",
                remedy="try torch.export.export(module, args, strict=False); a size that decides how it computes must "
                "be a number",
            ) from error


def functional(program: Any, has_rule: Callable[[Any], bool]) -> Any:
    """The program without operators that write in place, its layers whole.

    Operators without a rule are taken apart where PyTorch says how, into operators that have rules or have none either.
    """
    import torch

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keep_layers_of(program.graph)
        whole = program.run_decompositions({})
        if all(map(has_rule, _operators_of(whole.graph_module))):
            return whole
        table = torch.export.default_decompositions()
        for operator in [o for o in table if has_rule(o)]:
            table.pop(operator)
        return whole.run_decompositions(table)


def _operators_of(module: Any) -> Iterator[Any]:
    """The operators of a graph module and of those within it."""
    for part in module.modules():
        for node in getattr(getattr(part, "graph", None), "nodes", ()):
            if node.op == "call_function" and hasattr(node.target, "_schema"):
                yield node.target


def read_program(path: Path, *, unsafe: bool) -> Any:
    """The program of a file that torch.export.save wrote; raises ImportFailed where it is none, or not `unsafe`."""
    import torch

    if not unsafe:
        raise ImportFailed(
            f"{path} may run code of its author",
            found="a .pt2 file, which torch.export.load reads with pickle and whose graph may name any function",
            remedy="unsafe=True (--unsafe) where you trust the author; or give jfuse the module itself",
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.export.load(path)
        except Exception as error:  # zipfile's, json's, torch's own
            raise ImportFailed(
                f"{path} cannot be read as a file of torch.export.save",
                found=f"{type(error).__name__}: {_message(error)}",
            ) from error


def _message(error: Exception) -> str:
    """What is wrong, without where torch.export is explained."""
    text = re.sub(r"For more information[^\n]*", "", str(error).split("The error above")[0])
    return " ".join(text.split())[:600]
