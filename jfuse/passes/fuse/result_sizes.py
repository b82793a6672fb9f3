"""Sizes of a composite's results that data decides: its body and a replacement have names of their own for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jfuse.ir.dims import Dim, Shape, symbols_in, symbols_of
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.types import TensorType
from jfuse.ir.walk import is_same_type


def is_alike(derived: TensorType, declared: TensorType, eqn: Eqn) -> bool:
    """Whether a result has the declared type, but for the names of sizes that data decides in both."""
    if is_same_type(derived, declared):
        return True
    if derived.rank != declared.rank:
        return False
    ours, theirs = dict(_by_data(derived.shape, declared.shape, eqn)), dict(_lost(derived.shape, declared.shape, eqn))
    return is_same_type(derived.substitute(ours), declared.substitute(theirs))


def renamed_sizes(eqn: Eqn, replacement: Graph, returned: Sequence[int]) -> Mapping[str, Dim]:
    """Sizes of results that data decides: the composite's name for each, by the replacement's name.

    returned: the positions of the replacement's results among the composite's.
    """
    pairs = ((out.type.shape, eqn.outputs[i].type.shape) for out, i in zip(replacement.outputs, returned, strict=True))
    return {name: size for ours, declared in pairs for name, size in _by_data(ours, declared, eqn)}


def lost_sizes(eqn: Eqn, replacement: Graph, returned: Sequence[int]) -> Mapping[str, Dim]:
    """Sizes of results that only the replacement knows, by the composite's name for each. returned: as above."""
    pairs = ((out.type.shape, eqn.outputs[i].type.shape) for out, i in zip(replacement.outputs, returned, strict=True))
    return {name: size for ours, declared in pairs for name, size in _lost(ours, declared, eqn)}


def _lost(ours_shape: Shape, declared: Shape, eqn: Eqn) -> Iterator[tuple[str, Dim]]:
    """Yield the sizes that data decides in the composite, but operands in the replacement."""
    known = symbols_in(tuple(a.type.shape for a in eqn.inputs if a is not None))
    for ours, theirs in zip(ours_shape, declared, strict=True):
        if symbols_of(theirs) == {str(theirs)} and not symbols_of(theirs) & known and symbols_of(ours) <= known:
            yield str(theirs), ours


def _by_data(ours_shape: Shape, declared: Shape, eqn: Eqn) -> Iterator[tuple[str, Dim]]:
    """Yield the sizes that have a name without an operand, in the replacement and in the composite."""
    known = symbols_in(tuple(a.type.shape for a in eqn.inputs if a is not None))
    for ours, theirs in zip(ours_shape, declared, strict=True):
        if symbols_of(ours) == {str(ours)} and not symbols_of(ours) & known and symbols_of(theirs) - known:
            yield str(ours), theirs
