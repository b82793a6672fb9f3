"""The line that tells how far a command is: stages, with counts where they are known."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import jfuse
from jfuse.cli import console
from jfuse.passes.options import CountedStage, Pipeline


def test_each_stage_counts_what_it_works_on() -> None:
    counts: dict[str, list[tuple[int, int, str]]] = {}

    def on_stage(stage: str) -> None:
        if isinstance(stage, CountedStage):
            counts.setdefault(str(stage), []).append((stage.done, stage.total, stage.unit))

    x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 1, 4)
    types = [jax.ShapeDtypeStruct((1, 4), np.float32)]
    pipeline = Pipeline(on_stage=on_stage)
    options = jfuse.Verify(samples=3)
    jfuse.convert(jax.nn.softmax, types, verify=options, pipeline=pipeline, quantize="int8", calibration=list(x))
    ((done, total, unit),) = counts["simplify"]
    assert (0 < done < total, unit) == (True, "passes")
    assert counts["calibrate"][-1] == (5, 5, "calls")
    compared = [done for done, _, _ in counts["verify"]]
    assert compared == sorted(set(compared))
    assert {unit for _, _, unit in counts["verify"]} == {"calls"}


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("import", "import …"),
        (CountedStage("fuse", 12, 60, "passes"), "fuse … 12 of 60 passes"),
        (CountedStage("calibrate", 4000, 0, "calls"), "calibrate … 4,000 calls"),
        (CountedStage("verify", 31, 30, "calls"), "verify … 31 of 31 calls"),
    ],
)
def test_the_line(stage: str, text: str) -> None:
    assert console.progress_text(stage) == text
