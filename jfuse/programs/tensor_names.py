"""Names of the values of a signature."""

from __future__ import annotations

from jfuse.ir.graph import Atom, Signature
from jfuse.tflite.names import equation_name


def tensors_of(signature: Signature) -> dict[str, Atom]:
    """The values of a signature by name: inputs, outputs, then results of equations; the first of a name counts."""
    named: dict[str, Atom] = dict(zip(signature.input_names, signature.graph.inputs, strict=False))
    named |= dict(zip(signature.output_names, signature.graph.outputs, strict=False))
    for eqn in signature.graph.eqns:
        for i, var in enumerate(eqn.outputs):
            name = equation_name(eqn).strip(";")
            for known in (var.name, name if i == 0 else f"{name}:{i}"):
                if known:
                    named.setdefault(known, var)
    return named
