"""Calls of a quantized file at several sizes in a row: one must not change the result of the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.op import draws as draws_numbers
from jfuse.proof.inputs import draws, long_sizes, size_choices
from jfuse.verification.file_answers import InFile, Start, Streaming
from jfuse.verification.subject import Arrays

_APART = 1e-5  # of the largest number: XNNPACK may add up in another order where memory lies otherwise


def need_same_at_sizes(lite: Streaming, unquantized: Streaming, runtimes: Mapping[str, Start]) -> None:
    """Raise VerifyFailed if a call after one of another size answers differently than in a new interpreter.

    Files that keep something between calls, or draw random numbers, are left out, and sizes that LiteRT refuses in
    floats, too.
    """
    for signature in unquantized.program.signatures:
        sizes = size_choices(signature.graph)
        sizes = [*sizes[:1], long_sizes(signature.graph), *sizes[1:]]
        if len(sizes) < 3 or lite.program.states() or any(map(draws_numbers, all_eqns(signature.graph))):
            continue
        calls = [inputs for one in sizes for inputs in draws(signature, one, seed=0, count=1)]
        for where, start in runtimes.items():
            try:
                _need_same(lite, calls, signature.key, where, start)
            except VerifyFailed:
                if _takes(unquantized, calls, signature.key, start):
                    raise


def _need_same(lite: Streaming, calls: Sequence[Arrays], key: str, where: str, start: Start) -> None:
    in_row = InFile(lite, start)
    first, *later = [in_row.run(call, key) for call in (*calls, calls[0])]
    alone = [*(InFile(lite, start).run(call, key) for call in calls[1:]), first]
    for answers, expected in zip(later, alone, strict=True):
        for name, array in expected.items():
            _need_near(answers[name], array, f"output {name!r} of {key!r}", where)


def _need_near(answer: np.ndarray, wanted: np.ndarray, name: str, where: str) -> None:
    is_float = wanted.dtype.kind == "f"
    largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)) if is_float else 0.0
    if np.allclose(answer, wanted, rtol=0, atol=_APART * largest, equal_nan=is_float):
        return
    raise VerifyFailed(
        f"the quantized file answers otherwise after a call of another size: {name}",
        expected="the answer of a new interpreter",
        found=f"{float(np.nanmax(np.abs(answer.astype('f8') - wanted))):.2g} off, of {largest:.2g}, in {where}",
        remedy="batch= fixes the batch; report this model",
    )


def _takes(model: Streaming, calls: Sequence[Arrays], key: str, start: Start) -> bool:
    """Whether a runtime takes calls of these sizes, one after the other."""
    try:
        run = InFile(model, start)
        for call in (*calls, calls[0]):
            run.run(call, key)
    except VerifyFailed:
        return False
    return True
