"""Names of tensors: the user's node names on the way out, and sources again on the way in.

An operator's results are named after its node, with the functions around it. What makes a name unique is set off by a
semicolon, which node names do not contain: "dense/MatMul;1". A name that starts with one has no node: ";add".
"""

from __future__ import annotations

import re

from jfuse.ir.graph import Eqn, Source

_SUFFIX = re.compile(r"(:\d+)?(;\d+)?$")


class Names:
    """Hands out the names of one subgraph, each once.   separator: between a name and its number"""

    def __init__(self, separator: str = ";") -> None:
        self._separator = separator
        self._counts: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """`name`, or the first of "name;1", "name;2", … that was not handed out before."""
        count = self._counts.get(name, -1) + 1
        candidate = f"{name}{self._separator}{count}" if count else name
        while candidate in self._counts and count:
            count += 1
            candidate = f"{name}{self._separator}{count}"
        self._counts[name] = count
        self._counts.setdefault(candidate, 0)
        return candidate


def equation_name(eqn: Eqn) -> str:
    """The name of an equation's first result."""
    source = eqn.source
    path = "/".join((*source.stack, source.node) if source.node else source.stack)
    return path or eqn.outputs[0].name if eqn.outputs and eqn.outputs[0].name else path or f";{eqn.op.name}"


def source_of(name: str) -> Source:
    """The source named by an operator's first result."""
    return Source() if name.startswith(";") else Source(_SUFFIX.sub("", name))
