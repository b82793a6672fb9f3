"""PyTorch's symbols for open sizes as dimensions, by their text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.ir.dims import FUNCTIONS, Dim, Shape, computed, is_known, same, solved, symbol, symbols_of

_SYMBOL = re.compile(r"\b[su]\d+\b")
_LIMITS = {"Max": FUNCTIONS["max"], "Min": FUNCTIONS["min"]}


@dataclass(frozen=True)
class Symbols:
    """PyTorch's symbols for sizes as dimensions, by their text."""

    known: Mapping[str, Dim]

    @classmethod
    def of(cls, program: Any, names: Sequence[Mapping[int, str]]) -> Symbols:
        """The symbols of a program's inputs: of the names that the user gave them, else of input and axis.

        names: for each flat argument the names of open sizes by axis.
        """
        dims: dict[str, Dim] = {}
        compound: list[tuple[str, str]] = []
        inputs = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        for position, name in enumerate(inputs):
            shape = getattr(nodes[name].meta.get("val"), "shape", ())
            names_by_axis = names[position] if position < len(names) else {}
            for axis, size in enumerate(shape):
                text = str(size)
                if isinstance(size, int) or text in dims:
                    continue
                if text.isidentifier():
                    dims[text] = symbol(names_by_axis.get(axis, f"{name}_{axis}"))
                else:
                    compound.append((text, names_by_axis.get(axis, "")))
        for text, name in compound:
            if name.isidentifier() and (found := solved(symbol(text), symbol(name))) and found[0] not in dims:
                dims[found[0]] = found[1]
        return cls(dims)

    def limits(self, ranges: Mapping[Any, Any]) -> Iterator[str]:
        """Yield the size limits that torch.export found, as text.   ranges: by PyTorch's symbols, from 2"""
        for size, range_ in ranges.items():
            dim = self.known.get(str(size))
            least, most = str(range_.lower), str(range_.upper)
            if dim is not None and least.isdigit() and int(least) > 2:
                yield f"{dim} is at least {least}, as torch.export finds"
            if dim is not None and most.isdigit():
                yield f"{dim} is at most {most}, as torch.export finds"

    def dim(self, size: Any) -> Dim:
        """A size of PyTorch's as a dimension; raises ImportFailed where it is no sum or product of symbols."""
        if type(size) is int:
            return size
        text = str(size)
        names = {name: self.known.get(name, symbol(name)) for name in _SYMBOL.findall(text)}
        try:
            return computed(text, names, _LIMITS)
        except ValueError as error:
            raise ImportFailed("an input's size is no sum or product of open sizes", found=str(size)) from error

    def shape(self, sizes: Sequence[Any]) -> Shape:
        """The dimensions of a tensor of PyTorch: ints, and a symbol for each open size."""
        return tuple(self.dim(size) for size in sizes)

    def clipped(self, shape: Shape, sizes: Sequence[Any]) -> Iterator[tuple[str, Dim]]:
        """The dimensions of a shape with max(X, 0) in them where PyTorch has X, by PyTorch's: windows over any size."""
        for dim, size in zip(shape, sizes, strict=True):
            inner = _without_limits(dim)
            if str(inner) != str(dim) and same(inner, self.dim(size)):
                yield str(inner), dim


def _without_limits(dim: Dim) -> Dim:
    """The dimension with X for each max(X, 0) in it; `dims.unclipped` takes only the outermost."""
    if is_known(dim):
        return dim

    def greater(x: Dim, y: Dim) -> Dim:
        return next((d for d, e in ((x, y), (y, x)) if is_known(e) and e == 0), FUNCTIONS["max"](x, y))

    return computed(str(dim), {name: symbol(name) for name in symbols_of(dim)}, {**FUNCTIONS, "max": greater})
