"""The plan of a comparison: rows of calls at several sizes and scales, edges, independent samples, or user inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Program, Signature
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.integer_types import quantizes_as_it_runs
from jfuse.kernels.core.op import depends_on_data
from jfuse.lowering.rule_tools.case_distinctions import makes_integers
from jfuse.proof.inputs import (
    LONGER,
    CallInputs,
    concrete,
    draws,
    draws_apart,
    input_types,
    longer_sizes,
    open_sizes,
    size_choices,
)
from jfuse.proof.plain_integers import with_whole_integers
from jfuse.records.conversion import PaddingPromise
from jfuse.verification.inputs.edges import FINITE, HUGE, ODD, ONE_INFINITE, OVERFLOWING, SELECTING, edge_inputs
from jfuse.verification.inputs.padded_inputs import keep_promises
from jfuse.verification.inputs.sample_batch import SampleBatch
from jfuse.verification.inputs.user_inputs import UserInputs
from jfuse.verification.inputs.vocabularies import with_keys
from jfuse.verification.options import Verify
from jfuse.verification.subject import Interface

_KINDS = {"none": (), "infinite": (ONE_INFINITE,), "finite": FINITE, "nan": (*FINITE, *ODD)}
_BATCH_ELEMENTS = 2**20  # of all inputs of one batch of samples together
_LARGEST_BATCH = 4096


@dataclass(frozen=True)
class CallPlan:
    """Rows of calls, each from the initial states, and batches of samples: first calls, or such rows."""

    signatures: Sequence[Signature]
    interfaces: Mapping[str, Interface]
    fixed: Mapping[str, Mapping[str, int]]
    promises: Sequence[PaddingPromise]
    options: Verify
    keeps: bool = field(default=False)

    def rows(self) -> Iterator[Iterable[CallInputs]]:
        """The rows, the first of them with all random calls: at each choice of sizes some at other scales."""
        if self.options.inputs is not None:
            yield UserInputs(self.interfaces, self.signatures[0].key).calls(self.options.inputs)
            return
        yield self._random()
        yield from self._edges()

    def size(self) -> int:
        """About how many calls and samples there will be; 0 where that is unknown."""
        if self.options.inputs is not None:
            return 0
        choices = sum(len(self._sizes(s)) for s in self.signatures)
        edges = len(_KINDS[self.options.edges or "finite"])
        longer = sum(self._longer_sizes(s) is not None for s in self.signatures)
        return choices * self.options.calls + longer + len(self.signatures) * edges + self.options.samples

    def batches(self, in_a_row: bool) -> Iterator[SampleBatch]:
        """Independent samples in batches, shared out among signatures and sizes.

        in_a_row: each sample is a row of calls, along a second axis, as long as the other rows.
        """
        long = max(1, self.options.calls) if in_a_row else 1
        if self.options.inputs is not None or not self.options.samples:
            return
        cases = [(s, sizes) for s in self.signatures for sizes in self._sizes(s) if s.input_names]
        for number, (signature, sizes) in enumerate(cases):
            count = self.options.samples // len(cases) + (number < self.options.samples % len(cases))
            size = _batch_size(signature, sizes)
            for first in range(0, count, size):
                draw = partial(self._samples, signature, sizes, number, first, long if in_a_row else None)
                yield SampleBatch(signature, min(size, count - first), draw, first, long)

    def _samples(
        self,
        signature: Signature,
        sizes: Mapping[str, int],
        case: int,
        first: int,
        long: int | None,
        part: range,
    ) -> dict[str, np.ndarray]:
        """A part of the samples from a first one on, along a first axis of each input.

        case: the number of signature and sizes. long: the calls of each sample, along a second axis; None without one.
        """
        numbers = range((first + part.start) * (long or 1), (first + part.stop) * (long or 1))
        drawn = draws_apart(signature, sizes, self.options.seed + 1 + case, numbers)
        redrawn = [self._kept(signature, one, i) for i, one in zip(numbers, drawn, strict=True)]
        stacked = {name: np.stack([one[name] for one in redrawn]) for name in redrawn[0]}
        return stacked if long is None else {n: a.reshape(-1, long, *a.shape[1:]) for n, a in stacked.items()}

    def _random(self) -> Iterator[CallInputs]:
        for signature in self.signatures:
            for sizes in self._sizes(signature):
                for number, drawn in enumerate(draws(signature, sizes, self.options.seed, self.options.calls)):
                    yield CallInputs(signature.key, self._kept(signature, drawn, number))
            yield from self._longer(signature)
            yield from self._selecting(signature)

    def _longer(self, signature: Signature) -> Iterator[CallInputs]:
        """One call at larger sizes, if sizes are open and the user chose none."""
        if (longer := self._longer_sizes(signature)) is not None:
            (drawn,) = draws(signature, longer, self.options.seed, 1)
            yield CallInputs(signature.key, self._kept(signature, drawn, 0), LONGER)

    def _longer_sizes(self, signature: Signature) -> dict[str, int] | None:
        return longer_sizes(signature.graph, self.fixed[signature.key]) if self.options.sizes is None else None

    def _selecting(self, signature: Signature) -> Iterator[CallInputs]:
        """For data-dependent sizes: inputs that may leave a selection empty, at the least sizes."""
        if any(depends_on_data(e) for e in all_eqns(signature.graph)) and not self._is_particular(signature):
            for kind, drawn in edge_inputs(signature, self._sizes(signature)[-1], SELECTING, self.options.seed):
                yield CallInputs(signature.key, drawn, kind)

    def _edges(self) -> Iterator[list[CallInputs]]:
        kinds = _KINDS[self.options.edges or "finite"]
        for signature in self.signatures:
            if self._is_particular(signature):
                continue
            sizes = self._sizes(signature)
            left_open = _left_open(signature)
            tried = tuple(kind for kind in kinds if kind not in left_open)
            steps = [CallInputs(signature.key, i, kind) for kind, i in edge_inputs(signature, sizes[0], tried, 0)]
            if self.options.empty and (first := _first_symbol(signature)) not in (None, *self.fixed[signature.key]):
                (drawn,) = draws(signature, {**sizes[-1], str(first): 0}, self.options.seed, 1)
                steps.append(CallInputs(signature.key, drawn, "empty"))
            yield from [[step] for step in steps] if self.keeps else [steps]

    def _is_particular(self, signature: Signature) -> bool:
        """Whether only some inputs are promised to occur: edges need not be among them."""
        return any(set(p.inputs) <= set(signature.graph.inputs) for p in self.promises)

    def _kept(self, signature: Signature, drawn: dict[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
        seed = self.options.seed + number
        drawn = with_keys(signature, with_whole_integers(signature, drawn, number, self.options.seed), seed)
        return keep_promises(signature, drawn, self.promises, seed)

    def _sizes(self, signature: Signature) -> list[dict[str, int]]:
        fixed = self.fixed[signature.key]
        if self.options.sizes is None:
            return size_choices(signature.graph, fixed)
        names = open_sizes(input_types(signature.graph))
        choices = [self.options.sizes] if isinstance(self.options.sizes, Mapping) else list(self.options.sizes)
        unknown = sorted({name for sizes in choices for name in sizes}.difference(*map(open_sizes, self._all_types())))
        if unknown:
            raise JfuseError(
                f"no open size is called {unknown[0]!r}",
                expected=", ".join(f"{n}: {t}" for n, t in self.interfaces[signature.key].inputs.items()),
            )
        for name, n in ((n, sizes[n]) for sizes in choices for n in sizes if n in fixed and sizes[n] != fixed[n]):
            raise JfuseError(f"the size {name} cannot be {n}", expected=f"{fixed[name]}, which the other side takes")
        named_choices = [{name: n for name, n in sizes.items() if name in names} | dict(fixed) for sizes in choices]
        if all(0 in sizes.values() for sizes in named_choices):
            raise JfuseError(
                "sizes of 0 compare nothing",
                expected="1 or more of each size, in one choice at least",
                found=", ".join(f"{name}={n}" for sizes in named_choices for name, n in sizes.items()),
                remedy="options=jfuse.Verify(empty=True), which adds a batch of no rows",
            )
        return [size_choices(signature.graph, sizes)[0] for sizes in named_choices]

    def _all_types(self) -> Iterator[list[TensorType]]:
        return (input_types(s.graph) for s in self.signatures)


def passes_infinities_on(program: Program) -> bool:
    """Whether all that a program does is add, scale and clamp floats, element by element.

    Such a model answers one infinite element alike everywhere; products with weights make NaN of it by their zeros,
    and functions that runtimes approximate (GELU, HARD_SWISH) have no agreed value there.
    """
    eqns = [e for graph in program.graphs() for e in all_eqns(graph)]
    kinds = all(e.op.elementwise and (e.op.linear or e.op.switch == "clip") for e in eqns)
    return kinds and all(a.type.dtype is DType.f32 for e in eqns for a in (*e.inputs, *e.outputs) if a is not None)


def leaks_infinities(program: Program, runtimes: Sequence[str] = ()) -> bool:
    """Whether the file may give another answer for an infinity, though the model passes it on element by element.

    XNNPACK multiplies the neighbours of a pixel by zeros in a DEPTHWISE_CONV_2D of one pixel, and LiteRT's ADD_N makes
    the largest float of an infinite sum (LiteRT 2.3.0). So do ADD, SUB, MUL and DIV of tflite-micro, which cut off at
    the ends of their activation. runtimes: beside LiteRT
    """
    eqns = [e for graph in program.graphs() for e in all_eqns(graph)]
    if "tflite-micro" in runtimes and any(e.op.elementwise and e.op.linear for e in eqns):
        return True
    return any(e.op.product == "windows" or (e.op.elementwise and e.op.operand_at(0).variadic) for e in eqns)


def _left_open(signature: Signature) -> frozenset[str]:
    """The edges that LiteRT leaves undefined: floats beyond 2^31 as inputs of QUANTIZE, in steps, and of CAST.

    C++ does not say which integer such a float becomes: TensorFlow, XLA and processors differ. Beside weights of
    integers a kernel takes its steps from the largest float, which must be finite.
    """
    eqns = list(all_eqns(signature.graph))
    operands = (e.inputs[0] for e in eqns if e.op.scales == "into" or makes_integers(e))
    if any(a is not None and a.type.dtype.is_float for a in operands):
        return HUGE
    return OVERFLOWING if any(map(quantizes_as_it_runs, eqns)) else frozenset()


def _batch_size(signature: Signature, sizes: Mapping[str, int]) -> int:
    elements = sum(prod(concrete(v.type.shape, sizes)) for v in signature.graph.inputs[: len(signature.input_names)])
    return max(1, min(_LARGEST_BATCH, _BATCH_ELEMENTS // max(1, elements)))


def _first_symbol(signature: Signature) -> object:
    """The size that is open along the first axis of the first input that has one."""
    for var in signature.graph.inputs:
        if var.type.shape and str(var.type.shape[0]) in open_sizes(input_types(signature.graph)):
            return str(var.type.shape[0])
    return None
