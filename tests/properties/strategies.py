"""Random programs: a few inputs, and steps drawn from the forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np

from tests.properties.choose import Chooser
from tests.properties.forms import Form
from tests.properties.values import SIZES, Input, RandomProgram, Step, Unfit, Value, outcomes

_SHAPES: tuple[tuple[int | str, ...], ...] = (
    (),
    (4,),
    ("B",),
    ("B", 4),
    (2, 4),
    ("B", 1),
    ("B", 6),
    ("B", 2, 4),
    ("B", "T", 4),
    ("B", "T"),
    ("B", 4, 1, 2),
    ("B", 5, 6, 4),
    (1, 5, 4, 2),
    ("B", 2, 2, 1, 3),
)
IMAGES: tuple[tuple[int | str, ...], ...] = (("B", 6, 5, 4), (1, 6, 6, 4), ("B", 5, 5, 2), ("B", 7, 4), ("B", 4))
_DTYPES = (np.float32,) * 6 + (np.int32, np.int32, np.int64, np.bool_, np.float16, np.int8)
_ATTEMPTS = 4  # a form that finds nothing to work on is drawn again


@st.composite
def programs(
    draw: Callable[[st.SearchStrategy[Any]], Any],
    forms: Sequence[Form],
    *,
    shapes: Sequence[tuple[int | str, ...]] = _SHAPES,
    dtypes: Sequence[Any] = _DTYPES,
    most: int = 15,
) -> RandomProgram:
    """Programs of 3 to `most` steps of these forms; what nothing reads is a result."""
    inputs = tuple(
        Input(draw(st.sampled_from(shapes)), draw(st.sampled_from(dtypes))) for _ in range(draw(st.integers(1, 3)))
    )
    pool = [Value(tuple(x.array(s, k) for s in SIZES), (0.0,) * len(SIZES)) for k, x in enumerate(inputs)]
    empty = draw(st.integers(0, 7)) == 7  # whether values between may have no elements
    steps: list[tuple[Step, int]] = []
    read: set[int] = set()
    for _ in range(draw(st.integers(3, most))):
        for _ in range(_ATTEMPTS):
            form = draw(st.sampled_from(forms))
            try:
                step = form(Chooser(draw, pool))
                new = outcomes(step, pool, empty=empty)
            except Unfit:
                continue
            steps.append((step, len(new)))
            read.update(step.operands)
            pool += new
            break
    results = [i for i in range(len(inputs), len(pool)) if i not in read and _is_readable(pool[i])]
    if len(pool) > len(inputs) and draw(st.booleans()):
        also = draw(st.integers(len(inputs), len(pool) - 1))  # a value that may be read as well
        results += [also] if _is_readable(pool[also]) else []
    if not results:
        steps = []
    return RandomProgram(inputs, tuple(steps), tuple(results[-6:]))


def _is_readable(value: Value) -> bool:
    return all(a.size for a in value.arrays)
