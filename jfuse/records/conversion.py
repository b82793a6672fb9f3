"""Report of a conversion: fusions, refusals, assumptions, differences of outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import ClassVar

from jfuse.base.errors import NotFused
from jfuse.base.measure import Measure
from jfuse.base.notebooks import NotebookView
from jfuse.ir.graph import Graph, Var
from jfuse.records.remedies import remedy_of

_WARNING = "warning: "
_SLOWER = 1.1  # times as long: less than that may be chance


@dataclass(frozen=True)
class Speed:
    """The estimated time of one invoke of a fused recurrence and of plain operators for it, by measurements in LiteRT.

    plain: the fastest form of its loop. is_kept: whether `prefer="speed"` takes the fusion all the same.
    forms: the same for each form of its loop that is considered, by a word.
    """

    fused_microseconds: float
    plain_microseconds: float
    plain: str
    is_kept: bool = field(metadata={"json": "kept"})
    forms: Mapping[str, float] = field(default_factory=dict, metadata={"json": "expected"})
    json_also: ClassVar = {"text": "__str__"}

    @property
    def ratio(self) -> float:
        """How long plain operators take for each unit of time that the fused ones take."""
        return self.plain_microseconds / self.fused_microseconds

    def __str__(self) -> str:
        if self.is_kept:
            return f'prefer="speed" fuses as well: {self.plain} would take about {self.ratio:.2g} times as long'
        return f'prefer="speed" takes {self.plain}: about {self.ratio:.2g} of the time'


@dataclass(frozen=True)
class Fusion:
    """A composite that became fused ops, proven or tested, and the largest relative error on so many samples.

    recovered: whether it was found in an unmarked loop. cell: the recurrence in words, and speed: what it
    costs, where it is one.
    stopped: where and why the prover stopped, "" where the fusion is proven. conditions: under which it is, as text.
    unproven: why the rule's word was taken instead of a test (`trust=True`); then there are no samples and no error.
    """

    composite: str
    rule: str
    source: str
    becomes: tuple[str, ...]
    samples: int
    error: float
    recovered: bool = False
    cell: str = ""
    speed: Speed | None = None
    unproven: str = ""
    stopped: str = "not tried"
    conditions: tuple[str, ...] = ()
    json_also: ClassVar = {"proof": "proof"}

    @property
    def proof(self) -> str:
        """The level: "proven" for all inputs, "tested" on samples, or "trusted" where neither can be had."""
        if self.unproven:
            return "trusted"
        return "tested" if self.stopped else "proven"

    def __str__(self) -> str:
        samples = f"{self.samples} samples, largest error {self.error:.1e}"
        given = f" if {', '.join(self.conditions)}" if self.conditions else ""
        words = {
            "proven": f"proven{given}; {samples}",
            "tested": f"tested on {samples}; no proof: {self.stopped}",
            "trusted": f"not tested: {self.unproven}",
        }
        lines = [f"{self.composite} at {self.source}", f"into {', '.join(self.becomes)}; {words[self.proof]}"]
        return "\n".join(lines if self.speed is None else [*lines, str(self.speed)])


@dataclass(frozen=True)
class Refusal:
    """A composite or loop that did not fuse, under the name of the condition that failed."""

    what: str
    rule: str
    condition: str
    source: str
    detail: str = ""
    json_also: ClassVar = {"remedy": "remedy"}

    @classmethod
    def of(cls, refusal: NotFused, what: str, rule: str, source: object) -> Refusal:
        """The report's line for a rule or pass that refused."""
        return cls(what, rule, refusal.condition, str(source), refusal.detail)

    @property
    def reason(self) -> str:
        """The condition, with the expected and the actual value if the refusal has them."""
        return f"{self.condition}: {self.detail}" if self.detail else self.condition

    @property
    def remedy(self) -> str:
        """What refusals.md advises; "" for conditions of the user's own rules."""
        return remedy_of(self.condition)

    def __str__(self) -> str:
        place = f" at {self.source}" if self.source else ""
        return f"{self.rule}: {self.condition} failed{place}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True)
class Difference:
    """How far one output of one signature is from its reference: max|a - b| / max|b|, the worst over all samples.

    reason: for the tolerance. measure: the difference in other units. samples: how many were compared.
    """

    signature: str
    output: str
    pair: str
    error: float
    tolerance: float
    reason: str = ""
    measure: Measure | None = None
    samples: int = 0
    json_also: ClassVar = {"passed": "passed"}

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance


@dataclass(frozen=True)
class LoopForm:
    """The form that was chosen for a loop that was not fused, with its steps and their size.

    operators: how many one invoke runs; microseconds: about what they take in the fastest form, chosen_microseconds: in
    the chosen one. forms: the same in each form that is considered, by a word. `size` is text.
    """

    source: str
    size: str
    form: str
    operators: int = 0
    microseconds: float = 0.0
    chosen_microseconds: float = 0.0
    fastest: str = ""
    forms: Mapping[str, float] = field(default_factory=dict, metadata={"json": "expected"})

    def __str__(self) -> str:
        return f"{self.form} ({self.size})"


@dataclass(frozen=True)
class TunedForms:
    """Measured time of a recurrence in each form: microseconds of the whole file, by a word for the form.

    ratios: the same as times of the file in which jfuse chose. chosen: the form that was taken.
    """

    source: str
    chosen: str
    microseconds: Mapping[str, float]
    ratios: Mapping[str, float]

    def __str__(self) -> str:
        times = ", ".join(f"{form} {us:.4g} us ({self.ratios[form]:.2f})" for form, us in self.microseconds.items())
        return f"{self.source}: {self.chosen}, of {times}"


@dataclass(frozen=True)
class KeptState:
    """A state of the file: a value that one call hands to the next, and where it is meanwhile."""

    name: str
    type: str
    where: str

    def __str__(self) -> str:
        return f"{self.name}: {self.type} in {self.where}"


@dataclass(frozen=True)
class PaddingPromise:
    """The user's word on a mask: on which side of an axis the steps that do not count stand.

    graph: computes the mask from inputs of a signature's graph. source: the node that makes it. counts: the value of
    the mask where a step counts. in_numbers: the mask is multiplied with, so that it must hold 0 and 1.
    """

    side: str
    axis: int
    graph: Graph
    source: str
    counts: bool = True
    in_numbers: bool = False

    @property
    def inputs(self) -> tuple[Var, ...]:
        """The inputs that the mask is computed from."""
        return self.graph.inputs

    def __str__(self) -> str:
        return f"the mask of {self.source} is padding on the {self.side}" + ", in 0 and 1" * self.in_numbers


@dataclass(frozen=True)
class CustomOperators:
    """Operators of one kind that the runtime's own kernels do not run.

    code: their name in the file. op: the TensorFlow op that they replace. count: how many there are. source: the
    node of the first. cost: their requirements at run time.
    """

    code: str
    op: str
    count: int
    source: str
    cost: str

    def __str__(self) -> str:
        return f"{self.count} {self.code} for {self.op} (first at {self.source}): {self.cost}"


@dataclass(frozen=True)
class QuantizedOps:
    """Operators of one kind in one form: `form` in words, how many, the first one's node, and why it is no better."""

    op: str
    form: str
    count: int
    source: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.count} {self.op}: {self.form}" + (f", as {self.reason} ({self.source})" if self.reason else "")


@dataclass(frozen=True)
class Noise:
    """The signal-to-noise ratio of one output of a quantized file against the float model's, in dB.

    where: who computed it. inf: equal; -inf: the model's own output was zero, or never a finite number. part: of an
    output that is joined of several values, the places of one of them; "" for the whole. error: the largest difference
    by the largest number, as max|a - b| / max|b|; of integers the share that differs.
    """

    signature: str
    output: str
    snr_db: float
    count: int
    where: str
    part: str = ""
    error: float = 0.0

    def __str__(self) -> str:
        return f"{self.output}{self.part} of {self.signature}: SNR {self.snr_db:.1f} dB in {self.where}"


@dataclass(frozen=True)
class LatencyRatio:
    """The time of a call of a quantized file in LiteRT on this machine, and by that of the float file."""

    ratio: float
    microseconds: float
    float_microseconds: float = field(metadata={"json": "floats"})

    def __str__(self) -> str:
        times = f"{self.microseconds:.4g} instead of {self.float_microseconds:.4g} us in LiteRT on this machine"
        slower = "slower than in floats, " if self.ratio > _SLOWER else ""
        return f"{slower}{self.ratio:.2f} of the float file's ({times})"


@dataclass
class Report(NotebookView):
    """Everything that is worth telling about one conversion.

    interpreter_only: why LiteRT's CompiledModel refuses a file for LiteRT, with a remedy; "" if it takes the file.
    """

    fused: list[Fusion] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    promises: list[PaddingPromise] = field(default_factory=list)
    loops: list[LoopForm] = field(default_factory=list)
    tuned: list[TunedForms] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interpreter_only: str = ""
    kept: list[KeptState] = field(default_factory=list)
    quantized: list[QuantizedOps] = field(default_factory=list)
    noise: list[Noise] = field(default_factory=list)
    latency: LatencyRatio | None = None
    custom: list[CustomOperators] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list, metadata={"json": None})
    operators: dict[str, int] = field(default_factory=dict)
    size_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    json_also: ClassVar = {"promises": "promise_texts"}

    @property
    def promise_texts(self) -> tuple[str, ...]:
        """The promises in words."""
        return tuple(map(str, self.promises))

    def noting(self, *notes: str) -> Report:
        """The report with further notes; lists and tables are its own, so that later passes may fill them."""
        found = copy(self)
        for name, value in vars(self).items():
            setattr(found, name, copy(value))
        found.notes += notes
        return found

    def __str__(self) -> str:
        """Lines about fusions with proofs, refusals with reasons, and notes."""
        rows = [("fused", str(fusion)) for fusion in self.fused] + [("not fused", str(r)) for r in self.refused]
        rows += [("operators", self.operators_text()), *self.errors(), *self.told_rows()]
        return "\n".join(f"{label}: {text}".replace("\n", "\n  ") for label, text in rows)

    def operators_text(self) -> str:
        """How many operators of each kind the file has."""
        return ", ".join(f"{count} {name}" for name, count in self.operators.items())

    def errors(self) -> list[tuple[str, str]]:
        """How far the file is from its source: labels and texts. Of a quantized one, also its time."""
        if not self.noise:
            return [("largest error", self.largest_error())]
        worst = min(self.noise, key=lambda n: n.snr_db)
        text = f"{worst.error:.1e} of the largest number, SNR {worst.snr_db:.1f} dB ({worst.output}, {worst.where})"
        rows = [("largest error", f"{text}, against floats")]
        rows += [("latency", str(self.latency))] if self.latency is not None else []
        return rows + ([("before quantization", self.largest_error())] if self.differences else [])

    def largest_error(self) -> str:
        """The largest error of all outputs, with its tolerance, and between whom."""
        if not self.differences:
            return "not compared"
        worst = max(self.differences, key=lambda d: d.error)
        return f"{worst.error:.1e} of at most {worst.tolerance:.0e} ({worst.pair}, {worst.output})"

    def warn(self, text: str) -> None:
        """Add a warning."""
        self.notes.append(f"{_WARNING}{text}")

    @property
    def warnings(self) -> list[str]:
        """The notes that a user should not miss."""
        return [note.removeprefix(_WARNING) for note in self.notes if note.startswith(_WARNING)]

    def told_rows(self) -> list[tuple[str, str]]:
        """Warnings, then notes: labels and texts."""
        notes = [line for line in self.told() if not line.startswith(_WARNING)]
        return [*(("warning", line) for line in self.warnings), *(("note", line) for line in notes)]

    def told(self) -> Iterator[str]:
        """Yield lines about assumptions, states, forms of loops, and notes."""
        yield from (f"assumed: {a}" for a in self.assumptions)
        yield from (f"kept: {k}" for k in self.kept)
        yield from (f"custom operators: {c}" for c in self.custom)
        yield from (f"quantized: {q}" for q in self.quantized)
        yield from (f"noise: {n}" for n in self.noise)
        yield from (f"loop at {loop.source}: {loop}" if loop.source else f"loop: {loop}" for loop in self.loops)
        yield from (f"tuned: {t}" for t in self.tuned)
        yield from filter(None, [self.interpreter_only])
        yield from self.notes

    def compared(self, differences: Sequence[Difference], notes: Sequence[str]) -> None:
        """Store the result of a comparison of the whole model."""
        self.differences = list(differences)
        self.notes += [note for note in notes if note not in self.notes]
