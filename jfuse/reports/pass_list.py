"""The passes of a conversion in their order: input, promise, and reason of the position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jfuse.passes.pipeline import PIPELINE, PipelineStep, Stage

HEADER = ("pass", "on", "promises", "why it stands there", "from")


@dataclass(frozen=True)
class PassRow:
    """One pass.   on: "graph" or "program"; origin: "jfuse", or the module that defines it"""

    name: str
    on: str
    promises: str
    why: str
    origin: str

    def cells(self) -> tuple[str, ...]:
        """The fields, as `HEADER` names them."""
        return self.name, self.on, self.promises, self.why, self.origin


def pass_rows(steps: Sequence[PipelineStep]) -> Iterator[PassRow]:
    """A row for each pass, in their order."""
    for step in steps:
        stage = step if isinstance(step, Stage) else Stage(step)
        promise = "" if stage.promise is None else stage.promise.text
        yield PassRow(stage.__name__, stage.on, promise, stage.why, "jfuse" if stage.own is None else stage.own.origin)


def markdown() -> str:
    """The page of docs/ that lists jfuse's own passes."""
    lines = [
        "# The passes in their order",
        "",
        "A conversion runs these passes, one after the other. After each one jfuse checks the bindings of the graph,",
        "and what the pass promises. `jfuse passes` prints the same list, with passes of your own.",
        "[passes.md](passes.md) says how to write one.",
        "",
        "| | pass | on | promises | why it stands there |",
        "| --- | --- | --- | --- | --- |",
    ]
    rows = [row.cells()[:4] for row in pass_rows(PIPELINE)]
    lines += [f"| {i} | `{name}` | {on} | {promises} | {why} |" for i, (name, on, promises, why) in enumerate(rows)]
    return "\n".join([*lines, ""])
