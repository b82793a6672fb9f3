"""Example arguments for torch.export, and which of their sizes stay open."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from jfuse.frontends.torch_modules.tensors import tensor_of, torch_dtype
from jfuse.ir.dims import is_known, substitute_dim, symbols_of

_APART = 8
"""How many steps those with names are off those without."""
_MOST_ELEMENTS = 2**27
"""Of an example: torch.export reads none of them, but they are a tensor of that size."""


@dataclass(frozen=True)
class ExampleSizes:
    """The sizes with which open dimensions are tried out: of first axes, and, a step apart, of others."""

    first: int
    other: int
    step: int


EXAMPLES = (ExampleSizes(2, 24, 1), ExampleSizes(128, 192, 64), ExampleSizes(3200, 6400, 1280))
"""Small ones; some that are halved six times; some that are longer than windows over sound."""


@dataclass(frozen=True)
class Arguments:
    """Example arguments of an export, the open sizes, and their names by leaf.

    chosen: whether jfuse chose any size of the examples.
    """

    positional: tuple[Any, ...]
    named: Mapping[str, Any]
    dynamic_shapes: Any
    size_names: tuple[Mapping[int, str], ...]
    chosen: bool


def arguments_of(module: Any, specs: Any, dynamic_shapes: Any, sizes: ExampleSizes) -> Arguments | None:
    """The arguments of a module for specs: a sequence by position, or a mapping by name, of anything nested.

    None where examples of these sizes are too large.

    A leaf is a tensor, an array, anything with `shape` (None or a symbol where it is open) and `dtype`, or a value that
    is no tensor, which stays fixed.
    """
    from torch.utils import _pytree as tree

    arguments = dict(specs) if isinstance(specs, Mapping) else specs
    arguments = (
        arguments
        if isinstance(arguments, dict | tuple)
        else tuple(arguments)
        if isinstance(arguments, list)
        else (arguments,)
    )
    leaves, structure = tree.tree_flatten(arguments)
    made = _Examples(sizes)
    flat = [made.of(leaf) for leaf in leaves]
    if any(example is _TOO_LARGE for example in flat):
        return None
    examples = tree.tree_unflatten(flat, structure)
    names_by_leaf = tuple(_names(leaf) for leaf in leaves)
    if dynamic_shapes is None:
        dynamic_shapes = _gathered(module, tree.tree_unflatten([_open_axes(leaf) for leaf in leaves], structure))
    else:
        names_by_leaf = tuple(_dim_names(d) for d in _along(dynamic_shapes, arguments))
    if isinstance(arguments, dict):
        return Arguments((), examples, dynamic_shapes, names_by_leaf, made.chosen)
    return Arguments(examples, {}, dynamic_shapes, names_by_leaf, made.chosen)


def _gathered(module: Any, dynamic: Any) -> Any:
    """Group the arguments of *args into one tuple, as torch.export expects."""
    kinds = [p.kind for p in inspect.signature(module.forward).parameters.values()]
    if isinstance(dynamic, Mapping) or inspect.Parameter.VAR_POSITIONAL not in kinds:
        return dynamic
    first = kinds.index(inspect.Parameter.VAR_POSITIONAL)
    return (*dynamic[:first], tuple(dynamic[first:]))


_TOO_LARGE = object()


@dataclass
class _Examples:
    """Examples for specs: the sizes with names are the same in all of them.   chosen: whether a size was chosen here"""

    sizes: ExampleSizes
    known: dict[str, int] = field(default_factory=dict)
    chosen: bool = False

    def of(self, leaf: Any) -> Any:
        """A tensor for a spec, _TOO_LARGE where it would have too many elements; other leaves as they are."""
        import torch

        if isinstance(leaf, torch.Tensor) or not _is_spec(leaf):
            return leaf
        if all(isinstance(d, int) for d in leaf.shape) and hasattr(leaf, "__array__"):
            return tensor_of(leaf)
        shape = [self._size(d, axis) for axis, d in enumerate(leaf.shape)]
        if self.sizes is not EXAMPLES[0] and prod(shape) > _MOST_ELEMENTS:
            return _TOO_LARGE
        return torch.zeros(shape, dtype=torch_dtype(leaf.dtype))

    def _size(self, dim: Any, axis: int) -> int:
        if dim is not None and is_known(dim):
            return int(dim)
        self.chosen = True
        start = self.sizes.first if axis == 0 else self.sizes.other
        if dim is None:  # torch.export finds out which of them are one: those of one axis may be
            return start if axis == 0 else start + axis * self.sizes.step
        for name in sorted(symbols_of(dim)):
            self.known.setdefault(name, start + (_APART + len(self.known)) * self.sizes.step)
        return int(substitute_dim(dim, self.known))


def _open_axes(leaf: Any) -> Any:
    """The open axes of a spec, as torch.export wants them, without names: it refuses a limit of a size with a name."""
    import torch
    from torch.export import Dim

    if not _is_spec(leaf) or isinstance(leaf, torch.Tensor):
        return None
    return {axis: Dim.DYNAMIC for axis, dim in enumerate(leaf.shape) if dim is None or not is_known(dim)} or None


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
