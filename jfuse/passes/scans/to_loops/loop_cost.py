"""Chooses the form of a loop in the file by a cost model, whose constants `bench/loops.py` measures in LiteRT.

What was found there, one thread, with XNNPACK:
- A turn of WHILE costs as much as several small operators, and every carried tensor that changes is copied. The stack
  that collects the results is copied twice, whole: once by DYNAMIC_UPDATE_SLICE, once from the body's result to its
  input. So the cost grows with the square of the length, and several times faster once the stack is large. What is
  handed on unchanged is not copied.
- Every invoke prepares the operators of the body again, so a body of many steps pays only where there are many turns.
- XNNPACK packs a copy of the weights for each FULLY_CONNECTED of the file. Steps that stand side by side therefore
  read different memory: beyond the second cache, whose size differs by machine (NEAR_CACHES), they may be slower than a
  loop, and they need that memory. The same goes for the operators themselves, where there are very many.
- A linear recurrence has forms without a loop (`parallel_scan`), of few operators on many steps each. Here the numbers
  count that operators compute. Straight code computes fewer: it is faster for few steps, or more than 256 numbers in
  each; for 512 steps of 8 to 64 numbers a parallel scan takes half to a fifth of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log
from statistics import geometric_mean
from types import MappingProxyType

from jfuse.ir.dims import Dim, is_known
from jfuse.ir.graph import Const, Eqn, Graph
from jfuse.ir.types import TensorType
from jfuse.ir.walk import all_eqns, expanded_size
from jfuse.passes.options import ANY_MACHINE
from jfuse.passes.scans.to_loops.measured_forms import errors_in, machines_of

WHILE_US = 5.1  # the operator itself, once for each time that it runs
TURN_US = 0.29  # a turn of WHILE: condition, counter, reading and writing rows
PREPARE_US = 0.13  # an operator of a body, once for each time that its WHILE runs
COPY_US = 5.1e-5  # a byte of a stack in each turn
FAR_COPY_US = 4.2e-5  # a byte of a stack that is large
ALLOCATE_US = 2e-4  # a byte of a body's sequences and stacks, which the system hands out anew for each run
OPERATOR_US = 0.04  # an operator on a few numbers
WEIGHT_US = 8e-6  # a byte of weights, multiplied with one row
# The two below make the choices good that are judged by `bench/results/loops_linear.json`.
NUMBER_US = 7e-5  # a number that an operator of a linear recurrence computes or moves
SUM_US = 4e-4  # a number of running sums, which LiteRT computes one by one
_FORM_US = (WHILE_US, TURN_US, PREPARE_US, COPY_US, FAR_COPY_US, ALLOCATE_US)
_WORK_US = (OPERATOR_US, WEIGHT_US, NUMBER_US, SUM_US)
FORM_CONSTANTS = ("WHILE_US", "TURN_US", "PREPARE_US", "COPY_US", "FAR_COPY_US", "ALLOCATE_US")
"""In the order of `LoopSize.features`."""
WORK_CONSTANTS = ("OPERATOR_US", "WEIGHT_US")
"""In the order of `LoopSize.work`, which has numbers of linear recurrences besides."""

LEAST_US = 1e-3  # of a loop without steps in straight code: times are compared by their ratios
NEAR_STACK = 200 << 10  # bytes of a stack that is not large
MAX_OPERATORS = 4000  # of a graph: each takes about 200 bytes of the file
OPEN_LENGTH = 150  # the number of steps that is assumed where it is known only at run time


@dataclass(frozen=True)
class NearCache:
    """A second cache, where weights of steps side by side stay.

    size: in bytes. far_us: what a byte that does not stay there takes more, in microseconds.
    """

    size: int
    far_us: float

    def share_gone(self, size: int) -> float:
        """How much of so many bytes, read one after the other again and again, is gone when it is read next.

        Nothing of what takes up to a quarter of the cache, which has other things, too; all of what fills it.
        """
        free = self.size / 4
        return min(1.0, max(0.0, (size - free) / (self.size - free)))


NEAR_CACHES = {
    "zen4": NearCache(1 << 20, 3.8e-6),
    "zen4-avx2": NearCache(1 << 20, 9.6e-6),
    "emerald-rapids": NearCache(2 << 20, 2.9e-5),
}
"""By machine, as `MACHINES` has them."""


@dataclass(frozen=True)
class LoopSpelling:
    """How a loop is written: straight-line code, or WHILE with so many steps in a turn.

    block: where it is not 0, the turns of so many steps are a WHILE of their own, inside one over the blocks.
    radix: where it is not 0, a linear recurrence is computed level by level, in blocks of so many steps side by side.
    sums: as running sums, what only adds.
    """

    unrolled: bool = False
    steps: int = 1
    block: int = 0
    radix: int = 0
    sums: bool = False

    def __str__(self) -> str:
        if self.unrolled:
            return "unrolled"
        if self.is_parallel:
            return "running sums" if self.sums else f"parallel scan, {self.radix} steps a block"
        turn = f"WHILE, {self.steps} steps a turn" if self.steps > 1 else "WHILE, one step a turn"
        return f"{turn}, in blocks of {self.block} steps" if self.block else turn

    @property
    def short(self) -> str:
        """The form in one word: x4 are four steps a turn, x4in24 in blocks of 24 steps, log16 a scan of blocks."""
        if self.is_parallel:
            return "sums" if self.sums else f"log{self.radix}"
        return "unrolled" if self.unrolled else f"x{self.steps}" + (f"in{self.block}" if self.block else "")

    @property
    def is_parallel(self) -> bool:
        """Whether the form is one of linear recurrences alone, all of whose operators take whole sequences."""
        return self.sums or self.radix > 0

    @classmethod
    def named(cls, word: str) -> LoopSpelling:
        """The form that `short` gives as this word."""
        if word == "unrolled":
            return cls(unrolled=True)
        if word == "sums":
            return cls(sums=True)
        if word.startswith("log"):
            return cls(radix=int(word.removeprefix("log")))
        steps, _, block = word.removeprefix("x").partition("in")
        return cls(steps=int(steps), block=int(block or 0))

    def within(self, length: Dim) -> LoopSpelling:
        """The form as a loop of this length can have it."""
        if not is_known(length) or self.unrolled or self.is_parallel:
            return self
        steps = min(self.steps, int(length))
        return LoopSpelling(steps=steps, block=self.block if self.block % steps == 0 and self.block < length else 0)


_WORDS = "x1 x2 x4 x8 x16 x1in48 x4in48 x8in48 unrolled log16 log32 sums"
FORMS = tuple(map(LoopSpelling.named, _WORDS.split()))
"""The forms that are considered: those that `bench/loops.py` measures."""


@dataclass(frozen=True)
class Room:
    """How much straight code a loop may become.

    operators: that may be added to the graph; abreast: side by side. bytes: of the weights and rows of steps side by
    side. worth: how many times as fast a longer file must be. larger: how many times as large as with the smallest
    form a file may be, its weights in 8 bits.
    """

    operators: int = MAX_OPERATORS
    abreast: int = 900
    bytes: int = 768 << 10
    worth: float = 1.05
    larger: float = inf


ROOMS = {
    **dict.fromkeys(("auto", "fused", "size"), Room()),
    "speed": Room(abreast=MAX_OPERATORS, bytes=12 << 20, worth=1.0),
}
"""By what is preferred: files and memory that stay small, or all that was fastest on some machine."""
LARGER = 1.2
"""How many times as large as the smallest quantized file another one may be that is faster."""
FILE_BYTES, OPERATOR_BYTES = 4_000, 160
"""Bytes of each file for its metadata and texts; bytes of each operator of a loop with its tensors."""
WHILE_OPERATORS = 16
"""About so many operators' bytes does a WHILE of one step a turn take besides its step: it, its condition and counter,
reading and writing rows, two graphs with the tensors that they carry."""


@dataclass(frozen=True)
class LoopSize:
    """The size of a loop, which decides its cost.

    length: of steps; open where it is known only at run time. operators, weights (bytes), rows (of the batch): of one
    step. given, collected: bytes that a step reads of sequences, and bytes that it adds to the stacked results.
    cells: the microseconds of a step's fused cells. `weights` leaves out their weights, which all steps share.
    numbers, parallel: of linear recurrences. The numbers that a step reads, computes and collects; and by `short` the
    forms of these alone, with their operators and the numbers that these compute, for all steps.
    """

    length: Dim
    operators: int
    weights: int
    rows: int
    given: int
    collected: int
    cells: float = 0.0
    numbers: int = 0
    parallel: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        body: Graph,
        length: Dim,
        given: Sequence[TensorType],
        collected: Sequence[TensorType],
        cell_us: Callable[[Eqn], float] = lambda eqn: 0.0,
        parallel: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> LoopSize:
        """The size of a loop with this body, and the types of what each step is given and collects.

        cell_us: what a fused cell takes. parallel: forms that a linear recurrence alone has.
        """
        cells = [eqn for eqn in all_eqns(body) if eqn.op.overwrites]
        eqns = [eqn for eqn in all_eqns(body) if not eqn.op.overwrites]
        consts = {a for eqn in eqns for a in eqn.inputs if isinstance(a, Const) and a.type.rank > 1}
        rows = max((_closed(t.shape[0]) for v in body.inputs if (t := v.type).rank > 1), default=1)
        weights = sum(c.array.nbytes for c in consts)
        sequences = sum(map(_bytes, given)), sum(map(_bytes, collected))
        computed = sum(_bytes(out.type) for eqn in body.eqns for out in eqn.outputs)
        numbers = (computed + sum(sequences)) // 4 if parallel else 0
        return cls(length, expanded_size(body), weights, rows, *sequences, sum(map(cell_us, cells)), numbers, parallel)

    @property
    def steps(self) -> int:
        """The number of steps, assumed where it is open."""
        return int(self.length) if is_known(self.length) else OPEN_LENGTH

    def microseconds(self, form: LoopSpelling, machine: str = ANY_MACHINE) -> float:
        """Estimate the time of one invoke on a machine; for several machines, the geometric mean."""
        return geometric_mean(self.times(form, machine))

    def times(self, form: LoopSpelling, machine: str) -> tuple[float, ...]:
        """Estimate one invoke on each machine: the model's time, corrected by its errors for similar loops."""
        names, place = machines_of(machine), self.place()
        return tuple(self.modelled(form, name) * errors_in(form.short, name).factor(place) for name in names)

    def modelled(self, form: LoopSpelling, machine: str) -> float:
        """Estimate one invoke on one machine in microseconds, by the model alone."""
        pairs = (*zip(self.features(form), _FORM_US, strict=True), *zip(self.work(form), _WORK_US, strict=True))
        far = self.far(form, NEAR_CACHES[machine]) * NEAR_CACHES[machine].far_us
        return max(LEAST_US, sum(count * us for count, us in pairs) + far + self.steps * self.cells)

    def place(self) -> tuple[float, ...]:
        """Where the loop is among others, one unit of length for each factor e of its steps and operators."""
        weights, collects = 0.5 * log(self.weights + 1), 1.5 * (self.collected > 0)
        return log(self.steps + 1), log(self.operators + 1), weights, log(self.rows + 1), collects

    def work(self, form: LoopSpelling) -> tuple[float, ...]:
        """The work of all steps: operators run, bytes of weights multiplied with a row, numbers computed and summed."""
        if form.is_parallel:
            operators, numbers = self.parallel[form.short]
            return operators, 0, *((0, numbers) if form.sums else (numbers, 0))
        return self.steps * self.operators, self.steps * self.weights * self.rows, self.steps * self.numbers, 0

    def features(self, form: LoopSpelling) -> tuple[float, ...]:
        """The counts of everything that a form costs beside the work of the steps, in the order of their unit costs.

        WHILEs, turns, operators prepared, bytes of stacks copied near and far, of bodies allocated.
        """
        if form.unrolled or form.is_parallel:
            return 0, 0, 0, 0, 0, 0
        single = 0 if is_known(self.length) else (form.steps - 1) / 2  # steps in a second loop
        turns = (self.steps - single) // form.steps + single
        blocks = -(-self.steps // form.block) if form.block else 0
        runs, seconds = max(blocks, 1), 1 if single else 0
        near, far_off = (
            sum(count * stack for count, stack in self._copies(form, turns, blocks) if (stack > NEAR_STACK) is is_far)
            for is_far in (False, True)
        )
        prepared = self.operators * (form.steps * runs + seconds)
        bodies = 1 + (blocks > 0) + seconds  # of which each has the whole sequences, at once or block by block
        allocated = bodies * self.steps * (self.given + 2 * self.collected)
        return runs + (blocks > 0) + seconds, turns + blocks, prepared, near, far_off, allocated

    def far(self, form: LoopSpelling, cache: NearCache) -> float:
        """How many bytes of weights are read that are no longer in the near cache."""
        abreast = self.steps if form.unrolled else form.steps
        return self.steps * self.weights * cache.share_gone(abreast * self.weights)

    def _copies(self, form: LoopSpelling, turns: float, blocks: float) -> list[tuple[float, int]]:
        """How often which stack is copied, in bytes."""
        whole = self.steps * self.collected
        return [(turns, form.block * self.collected), (blocks, whole)] if form.block else [(turns, whole)]

    def added_operators(self, form: LoopSpelling) -> int:
        """About how many operators the form writes."""
        if form.is_parallel:
            return self.parallel[form.short][0]
        if form.unrolled:
            return self.steps * self.operators
        return self.operators * (form.steps + (self.steps % form.steps if is_known(self.length) else form.steps > 1))

    def bytes_of_file(self, form: LoopSpelling) -> float:
        """About how large a file with the loop alone is, its weights in 8 bits."""
        operators = self.added_operators(form) + (0 if form.unrolled or form.is_parallel else WHILE_OPERATORS)
        return FILE_BYTES + self.weights / 4 + OPERATOR_BYTES * operators

    def allows(self, form: LoopSpelling, room: Room) -> bool:
        """Whether a loop may have the form."""
        if form.is_parallel:
            return form.short in self.parallel and self.added_operators(form) <= room.operators
        steps = self.steps if form.unrolled else form.steps
        if form.unrolled and not is_known(self.length):
            return False
        if form.block and (form.block % steps or 3 * form.block > self.steps or not self.collected):
            return False
        bytes_ = steps * (self.weights + self.given + self.collected)
        fits = bytes_ <= room.bytes and steps * self.operators <= room.abreast
        several_turns = form.unrolled or 2 * steps <= self.steps
        least = min(map(self.bytes_of_file, (LoopSpelling(unrolled=True), LoopSpelling())))
        fits = fits and self.bytes_of_file(form) <= room.larger * least
        return steps == 1 or (several_turns and fits and self.added_operators(form) <= room.operators)

    def losses(self, room: Room, machine: str = ANY_MACHINE, *, unroll: bool = True) -> dict[LoopSpelling, float]:
        """How many times the time of a machine's fastest form each allowed form takes, on the machine where it is most.

        Shorter forms stand first.   unroll: allow straight-line code
        """
        forms = [f for f in FORMS if self.allows(f, room) and (unroll or not (f.unrolled or f.is_parallel))]
        allowed = sorted(forms, key=self.added_operators)
        times = {form: self.times(form, machine) for form in allowed}
        least = [min(of_machine) for of_machine in zip(*times.values(), strict=True)]
        return {form: max(t / best for t, best in zip(times[form], least, strict=True)) for form in allowed}

    def expected(self, room: Room, machine: str = ANY_MACHINE) -> dict[str, float]:
        """Estimate one invoke in each allowed form, in microseconds by its `short`; `fastest`'s first."""
        losses = self.losses(room, machine)
        return {form.short: self.microseconds(form, machine) for form in sorted(losses, key=lambda form: losses[form])}


def fastest(size: LoopSize, room: Room, machine: str = ANY_MACHINE, *, unroll: bool = True) -> LoopSpelling:
    """The form by which the machine that loses most loses least; among those about as good the shortest."""
    losses = size.losses(room, machine, unroll=unroll)
    limit = room.worth * min(losses.values())
    return next(form for form, loss in losses.items() if loss <= limit)


def smallest(size: LoopSize, room: Room, *, unroll: bool = True) -> LoopSpelling:
    """The form with the fewest operators: running sums, or WHILE of one step a turn, but for few small steps."""
    sums = LoopSpelling(sums=True)
    if unroll and size.allows(sums, room):
        return sums
    straight, turning = LoopSpelling(unrolled=True), LoopSpelling()
    fits = unroll and size.allows(straight, room)
    less = size.added_operators(straight) <= size.added_operators(turning) + WHILE_OPERATORS
    return straight if fits and less else turning


def _bytes(t: TensorType) -> int:
    size = t.dtype.numpy.itemsize
    for dim in t.shape:
        size *= _closed(dim)
    return size


def _closed(dim: Dim) -> int:
    return int(dim) if is_known(dim) else 1
