"""Joins of parts with unlike ranges, as of a detector's boxes in pixels and its scores from 0 to 1.

Integers have one scale for all parts, which leaves the scores a few values. Where nothing but floats is made of the
join, each part is dequantized before it instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.walk import users
from jfuse.passes.quantize.forms import EqnForm, follows, integers_of, operands_of
from jfuse.passes.quantize.groups import MOST_COARSE
from jfuse.passes.quantize.insert import Boundary

Range = tuple[float, float]
_FEW_BITS = 5
"""Report a part that keeps integers but has at most so many bits of the common scale."""


def parts_left_float(
    graph: Graph, forms: Mapping[Eqn, EqnForm], boundary: Boundary, range_of: Callable[[Atom], Range]
) -> Mapping[Eqn, str]:
    """Joins in integers whose parts are better dequantized one by one, and why."""
    ends = _ends(graph, forms)
    reasons = {}
    for eqn, of in _joins(graph, forms, range_of).items():
        widest, narrowest = _extremes(of)
        is_float = ends[eqn] is not None and all(boundary.is_float(i) for i in ends[eqn] or ())
        if is_float and _extent(widest) > MOST_COARSE * _extent(narrowest):
            reasons[eqn] = (
                f"its parts have unlike ranges, {_text(widest)} and {_text(narrowest)}: each has its own scale"
            )
    return reasons


def unlike_parts(graph: Graph, forms: Mapping[Eqn, EqnForm], range_of: Callable[[Atom], Range]) -> Iterator[str]:
    """Warnings of joins in integers that are outputs, and that leave a part few steps."""
    ends = _ends(graph, forms)
    for eqn, of in _joins(graph, forms, range_of).items():
        widest, narrowest = _extremes(of)
        most = 2.0 ** (forms[eqn].rule.activation_bits - _FEW_BITS)
        if ends[eqn] and _extent(widest) > most * _extent(narrowest):
            yield (
                f"{eqn.op.name} at {eqn.source or 'no node'} has one scale for parts of {_text(widest)} and "
                f"{_text(narrowest)}, of which the latter keeps few steps: give them outputs of their own, or floats"
            )


def _joins(graph: Graph, forms: Mapping[Eqn, EqnForm], range_of: Callable[[Atom], Range]) -> Mapping[Eqn, list[Range]]:
    """The ranges of the parts of each join in integers, but those of zeros alone."""
    joins = [e for e in graph.eqns if forms[e].kind == "integer" and e.op.moves == "joins"]
    ranges_of = {}
    for eqn in joins:
        parts = [a for i in operands_of(eqn).activations if (a := eqn.inputs[i]) is not None]
        ranges = [r for r in map(range_of, parts) if _extent(r)]
        if len(ranges) > 1 and integers_of(eqn).result == "same":
            ranges_of[eqn] = ranges
    return ranges_of


def _ends(graph: Graph, forms: Mapping[Eqn, EqnForm]) -> Mapping[Eqn, list[int] | None]:
    """The outputs that each join becomes, if only after it is moved; None where integers are computed of it."""
    readers = users(graph)
    outputs_of: dict[Var, list[int] | None] = {}
    for eqn in reversed(graph.eqns):
        for var in eqn.outputs:
            outputs: list[int] | None = [i for i, a in enumerate(graph.outputs) if a is var]
            for reader in readers.get(var, ()):
                is_integer = forms[reader].kind == "integer"
                behind = [outputs_of[v] for v in reader.outputs] if is_integer else []
                if outputs is None or (is_integer and not _only_moves(reader)) or None in behind:
                    outputs = None
                else:
                    outputs += [i for each in behind for i in each or ()]
            outputs_of[var] = outputs
    return {e: outputs_of[e.outputs[0]] for e in graph.eqns if e.op.moves == "joins" and e.outputs}


def _only_moves(eqn: Eqn) -> bool:
    """Whether an equation moves, pads or cuts off what one operand holds, and stays float behind floats."""
    variables = [i for i in operands_of(eqn).activations if isinstance(eqn.inputs[i], Var)]
    return eqn.op.moves is not None or (follows(eqn) and len(variables) == 1)


def _extremes(ranges: list[Range]) -> tuple[Range, Range]:
    """The widest and the narrowest one."""
    return max(ranges, key=_extent), min(ranges, key=_extent)


def _extent(of: Range) -> float:
    return max(of[1], 0.0) - min(of[0], 0.0)


def _text(of: Range) -> str:
    return f"{of[0]:.3g} to {of[1]:.3g}"
