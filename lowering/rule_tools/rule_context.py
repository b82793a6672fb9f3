"""`site()`: the composite for which a fusion rule was called: its body, its results, its masks' padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np

from jfuse.base.errors import RuleError
from jfuse.ir.graph import Atom, Graph, Var
from jfuse.ir.types import TensorType
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.padding_side import side_of_values


@dataclass(frozen=True)
class Site:
    """One composite in a graph.

    body: what the function computes, a graph whose inputs are the operands. arguments: the names of the operands.
    is_read: whether anything reads the result of that number.
    limits: for operands that the body uses as indices without a check, the size of the table: an index beyond it is an
        error in the source too, not a value.
    side_of: for an operand, an axis, and the value where a step counts, the side on which that mask is padded.
    """

    body: Graph
    arguments: Sequence[str]
    is_read: Sequence[bool]
    limits: Mapping[Var, int] = field(default_factory=dict)
    side_of: Callable[[Var, int, bool], str | None] = lambda operand, axis, counts: None

    @property
    def results(self) -> Sequence[Atom]:
        """The values that the body returns."""
        return self.body.outputs

    def result_type(self, index: int) -> TensorType:
        """The type that the rule's result of that number must have."""
        return self.results[index].type

    def index_limit(self, operand: Array) -> int | None:
        """The number of rows that the body itself indexes with an operand; None where it takes any value."""
        return self.limits.get(operand) if isinstance(operand, Var) else None

    def padding(self, mask: Array, axis: int, counts: bool = True) -> str | None:
        """How a mask, an operand of the composite, is padded along an axis: "right" where True comes first, or "left".

        counts: the value where a step counts. Known from how the mask is made or promised by the user (`padding=`);
        None where it may have gaps.
        """
        if isinstance(mask, Var):
            return self.side_of(mask, axis, counts)
        return None if mask is None else side_of_values(np.moveaxis(np.asarray(mask), axis, 0))


_SITE: ContextVar[Site | None] = ContextVar("jfuse_site", default=None)


def site() -> Site:
    """The composite for which the running rule was called."""
    current = _SITE.get()
    if current is None:
        raise RuleError("site() was called outside of a fusion rule", remedy="call it in a function under @jfuse.fuses")
    return current


@contextmanager
def at_site(context: Site) -> Iterator[None]:
    """Rules called within the `with` are called for this composite."""
    token = _SITE.set(context)
    try:
        yield
    finally:
        _SITE.reset(token)
