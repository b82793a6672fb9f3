"""Reads a written file back and compares it with the program that it was written from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.ir.contents import Contents, large_constants, same_bytes
from jfuse.ir.dims import Dim, is_known, symbol, symbols_of
from jfuse.ir.graph import Graph, Program
from jfuse.ir.text import format_graph
from jfuse.ir.types import TensorType
from jfuse.ir.walk import all_eqns, all_graphs, rename_dims, retype
from jfuse.tflite.read.file import load_tflite


def reads_back(program: Program, data: bytes) -> None:
    """Read the bytes back; raise VerifyFailed with the first equation that differs from the program."""
    loaded = {s.key: s for s in load_tflite(data).signatures}
    for signature in program.signatures:
        states = [[(s.name, s.initial.digest) for s in of.states] for of in (signature, loaded[signature.key])]
        if states[0] != states[1]:
            raise VerifyFailed(
                f"the file does not keep the states of signature {signature.key!r}", expected=states[0], found=states[1]
            )
        sides = (signature, loaded[signature.key])
        constants = [large_constants(s.graph, Contents()) for s in sides]
        same = len(constants[0]) == len(constants[1]) and all(map(_equal, *constants))
        # Large constants that are equal need no digests.
        plain = not any(_is_sum(d) for v in signature.graph.inputs for d in v.type.shape)
        texts = [_comparable(s.graph, c if same else [], sums=plain) for s, c in zip(sides, constants, strict=True)]
        for written, read in zip_longest(*texts):
            if written != read:
                raise VerifyFailed(
                    f"the file does not read back as signature {signature.key!r} was written",
                    expected=written,
                    found=read,
                    remedy="report this model",
                )


def _equal(written: Sequence[np.ndarray], read: Sequence[np.ndarray]) -> bool:
    a, b = written[0], read[0]
    return a.dtype == b.dtype and a.shape == b.shape and same_bytes(a, b)


def _without_sums(found: TensorType) -> TensorType:
    """The type with one name for all that is open in it."""
    return (
        replace(found, shape=tuple(d if is_known(d) else symbol("N") for d in found.shape)) if found.ranked else found
    )


def _is_sum(dim: Dim) -> bool:
    """Whether an open size is more than a symbol, such as 2*N: a file only marks it as open."""
    return symbols_of(dim) not in (frozenset(), {str(dim)})


def _comparable(graph: Graph, hoisted: Sequence[Sequence[np.ndarray]], *, sums: bool) -> list[str]:
    """The text without parts that a file does not store: sources, names, known values, and which open sizes are equal.

    sums: with sizes as they follow from those of the inputs, which are symbols then.
    """
    symbols = {
        name for inner in all_graphs(graph) for v in inner.inputs for d in v.type.shape for name in symbols_of(d)
    }
    symbols |= {n for e in all_eqns(graph) for out in e.outputs for d in out.type.shape for n in symbols_of(d)}
    anonymous = rename_dims(graph, {name: symbol("N") for name in symbols})
    if not sums or any(
        not (e.op.is_kernel or e.bodies) for e in all_eqns(graph)
    ):  # whose results are as they are stated: N - 1 is open
        anonymous = retype(anonymous, _without_sums)
    return format_graph(replace(anonymous, name=""), sources=False, known=False, hoisted=hoisted).splitlines()
