"""The layers that equations come from, by the names that their author gave them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from jfuse.ir.graph import Source

_INNER = re.compile(
    r"(while|scan|foldl|foldr|map|cond|\w*PartitionedCall|(Stateless)?(While|If)"
    r"|(lstm|gru|simple_rnn|stacked_rnn)_cells?)(_\d+)*",
    re.ASCII,
)
"""Parts of a node's name that mean a layer's loop, function or cell."""
_NUMBER = re.compile(r"_\d+$")


@dataclass(frozen=True)
class Layers:
    """Tells the layer of an equation. counted: scopes carry one more number than layers, as Keras 3 writes them."""

    counted: bool = False

    @classmethod
    def of(cls, sources: Iterable[Source], variables: Collection[str]) -> Layers:
        """Compare the scopes of recurrences with the paths of the source's variables, which are the layers' own."""
        known = {part for name in variables for part in name.split("/")[:-1]}
        scopes = [_scope(source) for source in sources]
        as_they_are = sum(scope in known for scope in scopes)
        return cls(sum(_NUMBER.sub("", s) in known for s in scopes if _NUMBER.search(s)) > as_they_are)

    def name(self, source: Source) -> str:
        """The name of the layer, as far as the source tells."""
        scope = _scope(source)
        return _NUMBER.sub("", scope) if self.counted else scope


def _scope(source: Source) -> str:
    """The last part of a node's path that is not a loop or function of a layer."""
    parts = [p for p in "/".join((*source.stack, source.node)).split("/") if p]
    while len(parts) > 1 and _INNER.fullmatch(parts[-1]):
        parts.pop()
    return parts[-1] if parts else "state"


def layer_of(source: Source, variables: Collection[str]) -> str:
    """The layer or scope of a node, for messages: `layer 'dense'`; "" without one.

    variables: the names of the source's variables: what they have in common with the path of the node is a layer.
    """
    path = "/".join((*source.stack, source.node)).split("/")[:-1]
    scopes = [part for part in path if part and not _INNER.fullmatch(part)]
    known = {part for name in variables for part in name.split("/")[:-1]}
    for scope in reversed(scopes):
        for layer in (scope, _NUMBER.sub("", scope)):  # Keras 3 writes scopes with one number more
            if layer in known:
                return f"layer {layer!r}"
    return f"scope {scopes[-1]!r}" if scopes else ""
