"""What a verification found: differences of outputs, and where in the graph they begin."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from jfuse.report import Difference
from jfuse.verification.measure import Measure


@dataclass(frozen=True)
class EquationError:
    """How far the results of one equation are from the same values elsewhere.

    path: where it stands: its number in the signature's graph, and for one in a body the numbers of each equation and
    body on the way. pair: what was compared, `found/wanted` as in `xla/litert`. measure: the distance of the worst
    result. own: the relative error that the equation makes by itself, given the operands of the other side; None where
    that was not tried. source: the node of the source, layer: the layer of the model that it belongs to.
    """

    signature: str
    path: tuple[int, ...]
    op: str
    text: str
    source: str
    layer: str
    pair: str
    measure: Measure
    own: float | None = None


@dataclass
class Verification:
    """The result of `jfuse.verify`: what was compared, on how many samples, how far they are apart, and where.

    differences: the worst of each output. first: the first equation that differs, where an output is beyond its
    tolerance. equations: the error of every equation along the graph, where that was asked for. samples: how many rows
    of calls were compared. seconds: by what ran. failing: the file with the shrunk input that shows the difference;
    command: what shows it again.
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
    failing: Path | None = None
    command: str = ""

    @property
    def passed(self) -> bool:
        """Whether every output is within its tolerance."""
        return all(d.error <= d.tolerance for d in self.differences)
