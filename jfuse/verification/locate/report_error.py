"""The report's entry for an equation that errs: its layer, and its operands with their ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jfuse.ir.graph import Const, Eqn, Source
from jfuse.ir.text import format_eqn
from jfuse.records.verification import EquationError
from jfuse.verification.locate.local_errors import LocalStep
from jfuse.verification.runners.node_values import Value

_CALLS = ("PartitionedCall", "StatefulPartitionedCall", "while", "cond", "body", "then", "else")


def equation_error(
    signature: str, step: LocalStep, path: tuple[int, ...], pair: str, *, steps: tuple[int, ...] = (), first: str = ""
) -> EquationError:
    """One equation's error, from the values of both sides."""
    eqn = step.eqn
    return EquationError(
        signature,
        path,
        eqn.op.name,
        format_eqn(eqn),
        str(eqn.source),
        layer_of(eqn.source),
        pair,
        step.error,
        step.own,
        described(eqn, step.operands),
        steps,
        first,
    )


def layer_of(source: Source) -> str:
    """The layer that a node belongs to: its scopes, without the loops and calls within the layer."""
    names = [s for s in source.stack if not s.startswith("__inference")]
    parts = [*"/".join(names).split("/"), *source.node.split("/")[:-1]] if names else source.node.split("/")[:-1]
    kept: list[str] = []
    for part in parts:
        if part.startswith(_CALLS):
            break
        kept.append(part)
    return "/".join(kept)


def described(eqn: Eqn, operands: Sequence[Value]) -> tuple[str, ...]:
    """The operands that are computed, with their types and ranges."""
    texts = []
    letter = ord("a")
    seen: dict[object, str] = {}
    for atom, value in zip(eqn.inputs, operands, strict=True):
        if atom is None or isinstance(atom, Const) or atom in seen:
            continue
        seen[atom] = chr(letter)
        letter += 1
        if value is not None:
            texts.append(f"{seen[atom]}: {atom.type} {_range(value)}".rstrip())
    return tuple(texts)


def _range(value: np.ndarray) -> str:
    if value.dtype == object or not value.size:
        return ""
    if value.dtype.kind == "c":
        return f"of magnitude up to {np.abs(value).max():.4g}"
    wide = value.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    odd = wide.size - finite.size
    text = f"from {finite.min():.4g} to {finite.max():.4g}" if finite.size else "with no finite number"
    return text + (f", {odd} not finite" if odd and finite.size else "")
