"""The result of a verification: differences of outputs, and the equation where they begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from jfuse.base.measure import Measure
from jfuse.base.notebooks import NotebookView
from jfuse.ir.graph import Program
from jfuse.records.conversion import Difference


@dataclass(frozen=True)
class EquationError:
    """How far the results of one equation are from the same values elsewhere.

    path: where it stands: its number in the signature's graph, and for one in a body the numbers of each equation and
    body on the way. pair: the compared sides, `reference/result` as in `xla/litert`. measure: the distance of the worst
    result; None where one of the sides is not known. own: the relative error that the equation makes by itself, given
    the operands of the other side; None where that was not tried. source: the node of the source, layer: the layer of
    the model that it belongs to. operands: their types and ranges. steps: the step of each loop around it, from 0.
    first: the source of the first of several equations, of which this is the last, if any of them may
    errs. state: the state that differs although every equation is right; the equation is the one that reads it then.
    call: which call of a row. scale: the other side's quantization of the result, if that differs. delegate:
    the delegate that LiteRT needs to err, if its own kernels do not; together: only where that runs the equation with
    others before it as one.
    """

    signature: str
    path: tuple[int, ...]
    op: str
    text: str
    source: str
    layer: str
    pair: str
    measure: Measure | None
    own: float | None = None
    operands: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    first: str = ""
    state: str = ""
    call: int = 0
    scale: str = ""
    delegate: str = ""
    together: bool = False

    @property
    def place(self) -> str:
        """Where it is, in a line: the node, the layer, the step of a loop, the call."""
        parts = [self.source or self.op]
        parts += [f"layer {self.layer}"] if self.layer else []
        parts += [f"step {', '.join(map(str, self.steps))} of the loop"] if self.steps else []
        parts += [f"in {self.delegate}"] if self.delegate else []
        parts += [f"call {self.call + 1} in a row"] if self.call else []
        return ", ".join(parts)

    @property
    def size(self) -> str:
        """The relative error with three digits, or that it is not known."""
        return "what is not known" if self.measure is None else f"{self.measure.relative:.3g}"

    @property
    def detail(self) -> str:
        """A few lines: the equation, its error, its operands."""
        lines = [self.text]
        if self.state:
            lines.append(f"the state {self.state!r} lost its value between calls: differs by {self.size}")
        elif self.scale:
            lines.append(f"its result has another quantization: the other side has {self.scale}")
        elif self.own is not None:
            lines.append(f"by itself differs by {self.own:.3g}; with all before it by {self.size}")
        if self.delegate:
            together = ", where that runs it with operators before it as one" if self.together else ""
            lines.append(f"with {self.delegate} alone{together}: LiteRT's own kernels agree with XLA")
        if self.first:
            lines.append(f"or an equation before it, from {self.first} on: no value between them is known")
        return "\n            ".join([*lines, *self.operands])


@dataclass
class Verification(NotebookView):
    """The result of `jfuse.verify`: the sides, the number of samples, the differences, and their position.

    differences: the worst of each output. first: the first equation that differs, where an output is beyond its
    tolerance. equations: the error of every equation along the graph, where that was asked for. samples: how many
    calls were compared. seconds: by runner. inputs: the calls in a row (signature and inputs) that show a difference,
    shrunk; failing: the file with them; command: reproduces it. unfinished: whether something ended it early.
    before, after: the graphs of the reference and of the subject, if they have one.
    """

    subject: str
    reference: str
    differences: list[Difference] = field(default_factory=list)
    first: EquationError | None = None
    equations: list[EquationError] = field(default_factory=list)
    samples: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    backend: str = ""
    notes: list[str] = field(default_factory=list)
    inputs: tuple[tuple[str, Mapping[str, np.ndarray]], ...] = field(default=(), metadata={"json": None})
    failing: Path | None = None
    command: str = ""
    unfinished: bool = False
    before: Program | None = field(default=None, repr=False, metadata={"json": None})
    after: Program | None = field(default=None, repr=False, metadata={"json": None})
    json_also: ClassVar = {"passed": "passed"}

    @property
    def passed(self) -> bool:
        """Whether every output is within its tolerance, and all was compared."""
        return not self.unfinished and all(d.passed for d in self.differences)
