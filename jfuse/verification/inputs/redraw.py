"""Redraws inputs that the source refuses: by its message, then by common requirements."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Signature
from jfuse.verification.inputs.needed_shapes import NeededShape, needed_shapes
from jfuse.verification.inputs.vocabularies import vocabularies, with_keys
from jfuse.verification.subject import Arrays

_TRIES = 200  # for each signature; a call on a few numbers takes TensorFlow about a millisecond
_FEW, _SECONDS = 20, 30.0  # of tries, where they take longer than that
_ROUNDS = 100  # of tries in which several inputs change at once
_RANGE = re.compile(r"[\[(](-?\d+), ?(-?\d+)[\])]")
_NUMBER = re.compile(r"-?\d+")
SIZES = "sizes"  # the numbers as they were drawn, along axes as long as another input's
_OF_SIZES = re.compile(r"siz|dimension|batch|divi|multiple|bound", re.IGNORECASE)  # in a message
_MULTIPLES = (2, 3, 4, 6, 8, 9, 12, 16)
_ALL = ""
_NUMERALS = np.array([b"0", b"1", b"2", b"12"], object)


@dataclass(frozen=True)
class Manner:
    """How one input is redrawn: a kind of numbers; some kinds depend on another input's sizes or value.

    axis: of the other input, None for all its elements. least, end: of the numbers, where they are known.
    axes: those along which the input gets sizes of the other first, each with the axis of the other, rounded up to a
    `multiple`.
    """

    kind: str
    other: str = ""
    axis: int | None = None
    least: int = 0
    end: int = 0
    axes: tuple[tuple[int, int], ...] = ()
    multiple: int = 1

    def draw(self, generator: np.random.Generator, drawn: np.ndarray, inputs: Arrays) -> np.ndarray:
        """An array of the dtype and, but for `axes`, of the shape of the one drawn before.   inputs: all drawn"""
        for own, axis in self.axes:
            size = -(-inputs[self.other].shape[axis] // self.multiple) * self.multiple
            positions = np.arange(size) % max(drawn.shape[own], 1)
            drawn = np.take(drawn, positions, own)
        sized = inputs.get(self.other, drawn)
        n = sized.size if self.axis is None else sized.shape[self.axis]
        numbers = np.asarray(_KINDS[self.kind](self, generator, drawn, n, sized))
        return numbers.reshape(drawn.shape).astype(drawn.dtype)


Manners = Mapping[str, Manner]
"""By the names of inputs; the others stay as they are drawn."""


@dataclass
class Redraw:
    """The way in which each signature's inputs had to be drawn for TensorFlow to take them; later calls use it at once.

    fixed: by signature, the inputs that are never drawn otherwise. needed: those that are shapes, of the signatures
    asked for.
    """

    fixed: Mapping[str, Collection[str]] = field(default_factory=dict)
    kept: dict[str, Manners] = field(default_factory=dict)
    needed: dict[str, Mapping[str, NeededShape]] = field(default_factory=dict)
    _tried: dict[str, int] = field(default_factory=dict)
    _count: int = 0

    def as_kept(self, key: str, drawn: Arrays, number: int | None = None) -> Arrays:
        """The drawn inputs in the manners that TensorFlow took before, if any.   number: as `changed` has it"""
        return self.changed(drawn, self.kept.get(key, {}), number)

    def as_needed(self, signature: Signature, drawn: Arrays) -> Arrays:
        """The drawn inputs with shapes as their readers need them, before TensorFlow sees others."""
        key = signature.key
        if key not in self.needed:
            self.needed[key] = needed_shapes(signature, drawn, self.fixed.get(key, ()))
        return {**drawn, **{n: shape.value(drawn[n], drawn) for n, shape in self.needed[key].items()}}

    def changed(self, drawn: Arrays, manners: Manners, number: int | None = None) -> Arrays:
        """The drawn inputs, some of them in other manners.

        number: of a sample; it seeds the draw, whichever samples were changed before.
        """
        if not manners:
            return drawn
        self._count += number is None
        generator = np.random.default_rng(self._count if number is None else (0, number))
        return {n: manners[n].draw(generator, a, drawn) if n in manners else a for n, a in drawn.items()}

    def definite(self, signature: Signature, drawn: Arrays) -> Iterator[tuple[Manners, Arrays]]:
        """Square matrices as positive definite ones: each input of such, then all of them."""
        yield from self._each(signature, drawn, "definite", _is_square)

    def unit(self, signature: Signature, drawn: Arrays) -> Iterator[tuple[Manners, Arrays]]:
        """Real numbers between 0 and 1: each input of such, then all of them."""
        yield from self._each(signature, drawn, "unit", lambda array: array.dtype.kind == "f")

    def _each(
        self, signature: Signature, drawn: Arrays, kind: str, takes: Callable[[np.ndarray], bool]
    ) -> Iterator[tuple[Manners, Arrays]]:
        fixed = self.fixed.get(signature.key, ())
        found = {n: Manner(kind) for n, a in drawn.items() if n not in fixed and takes(a)}
        for manners in (*({n: m} for n, m in found.items()), *([found] if len(found) > 1 else [])):
            yield manners, self.changed(drawn, manners)

    def others(self, signature: Signature, drawn: Arrays, message: str) -> Iterator[tuple[Manners, Arrays]]:
        """Inputs to try one after the other, with the manners to keep where TensorFlow takes them.

        message: why it refuses the drawn ones.
        """
        fixed = self.fixed.get(signature.key, ())
        if vocabularies(signature.graph):
            keyed = with_keys(signature, drawn, len(drawn), every=True)
            yield {}, {name: drawn[name] if name in fixed else array for name, array in keyed.items()}
        started = time.monotonic()
        tries = [_tries(drawn, fixed, message), _multiples(signature, fixed)]
        by_sizes = _OF_SIZES.search(message) is not None
        for manners in itertools.chain(_agreeing(signature, drawn, fixed), *(tries[::-1] if by_sizes else tries)):
            count = self._tried.get(signature.key, 0)
            if count >= _TRIES or (count >= _FEW and time.monotonic() - started > _SECONDS):
                return
            self._tried[signature.key] = count + 1
            yield manners, self.changed(drawn, manners)


def _agreeing(signature: Signature, drawn: Arrays, fixed: Collection[str]) -> Iterator[Manners]:
    """Make open sizes of inputs equal: operators with data-dependent sizes hide which of them agree.

    Along the same axes, or of a vector along another one; integers in order as well.
    """
    named = zip(signature.input_names, signature.graph.inputs, strict=False)
    open_ = {n: [i for i, d in enumerate(v.type.shape) if not is_known(d)] for n, v in named}
    for other, theirs in open_.items():
        for moved in (0, *theirs[1:]):
            axes_by_input: dict[str, tuple[tuple[int, int], ...]] = {}
            for name, own in open_.items():
                vector = drawn[name].ndim == 1
                pairs = [(i, i + moved) for i in own if i + moved in theirs and (vector or not moved)]
                differing = tuple((i, k) for i, k in pairs if drawn[name].shape[i] != drawn[other].shape[k])
                if differing and name not in fixed:
                    axes_by_input[name] = differing
            if axes_by_input:
                yield {n: Manner(SIZES, other, axes=axes) for n, axes in axes_by_input.items()}
                ordered = [n for n in axes_by_input if drawn[n].ndim == 1 and drawn[n].dtype.kind in "iu"]
                kinds = {n: "ascending" if n in ordered else SIZES for n in axes_by_input}
                if ordered:
                    yield {n: Manner(kinds[n], other, axes=axes) for n, axes in axes_by_input.items()}


def _multiples(signature: Signature, fixed: Collection[str]) -> Iterator[Manners]:
    """Open sizes as multiples of small numbers, one symbol or all, for models that split an axis into blocks."""
    axes: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for name, var in zip(signature.input_names, signature.graph.inputs, strict=False):
        for axis, dim in enumerate(var.type.shape if name not in fixed else ()):
            if not is_known(dim):
                for symbols in {str(dim), _ALL}:
                    axes.setdefault(symbols, {}).setdefault(name, []).append((axis, axis))
    whole = axes.pop(_ALL, {})
    for multiple in _MULTIPLES:
        for group in (*axes.values(), *([whole] if len(axes) > 1 else [])):
            yield {n: Manner(SIZES, n, axes=tuple(pairs), multiple=multiple) for n, pairs in group.items()}


def _tries(drawn: Arrays, fixed: Collection[str], message: str) -> Iterator[Manners]:
    """Candidates in order: ranges from the message, one kind for all integers, single inputs, then several at once."""
    from_message = {name: manner for name, manner in _told(drawn, message) if name not in fixed}
    if from_message:
        yield from_message
    if small := {n: Manner("range", end=100) for n, a in drawn.items() if n not in fixed and _is_large(a)}:
        yield small | from_message
    yield from _lengths(drawn, fixed, message)
    yield from ({**from_message, **found} for found in _ascending(drawn, fixed, message))
    if nested := _nested_rows(drawn, fixed):
        yield nested
    possible = {n: found for n, array in drawn.items() if n not in fixed and (found := _possible(n, array, drawn))}
    integers = [name for name in possible if drawn[name].dtype.kind in "iu"]
    for kind in ("bits", "ones", "few", "zeros") if integers else ():
        yield {name: Manner(kind) for name in integers}
    for name, found in possible.items():
        yield from ({**from_message, name: manner} for manner in found)
    generator = np.random.default_rng(0)
    for _ in range(_ROUNDS if len(possible) > 1 else 0):
        chosen = {name: (None, *found)[generator.integers(len(found) + 1)] for name, found in possible.items()}
        yield {name: manner for name, manner in chosen.items() if manner is not None}


def _lengths(drawn: Arrays, fixed: Collection[str], message: str) -> Iterator[Manners]:
    """Where the message speaks of lengths: each vector of integers as those of the rows of another input."""
    vectors = [n for n, a in drawn.items() if n not in fixed and a.ndim == 1 and a.dtype.kind in "iu"]
    for other, of in drawn.items() if "length" in message.lower() else ():
        for axis, kind in itertools.product((1, 0) if of.ndim > 1 else (), ("lengths", "sorted lengths")):
            if found := {n: Manner(kind, other, axis) for n in vectors if len(drawn[n]) == of.shape[1 - axis]}:
                yield found


def _ascending(drawn: Arrays, fixed: Collection[str], message: str) -> Iterator[Manners]:
    """Where the message speaks of numbers that do not ascend: each vector of integers in order, then all of them."""
    vectors = [n for n, a in drawn.items() if n not in fixed and a.ndim == 1 and a.dtype.kind in "iu"]
    if "increasing" in message or "sorted" in message:
        yield from ({name: Manner("ascending")} for name in vectors)
        yield {name: Manner("ascending") for name in vectors}


def _nested_rows(drawn: Arrays, fixed: Collection[str]) -> dict[str, Manner]:
    """Row splits of a ragged tensor of several levels: each vector of integers cuts up the one after it."""
    vectors = [n for n, a in drawn.items() if n not in fixed and a.ndim == 1 and a.dtype.kind in "iu"]
    values = next((n for n, a in drawn.items() if a.ndim and n not in vectors), None)
    if len(vectors) < 2 or values is None:
        return {}
    above = {name: Manner("rows", below) for name, below in itertools.pairwise(vectors)}
    return {**above, vectors[-1]: Manner("splits", values, 0)}


def _told(drawn: Arrays, message: str) -> Iterator[tuple[str, Manner]]:
    """Read ranges from an error message: `57 is not in [0, 5)` refers to inputs that hold a 57."""
    range_text = _RANGE.search(message)
    if range_text is None:
        return
    least, end = map(int, range_text.groups())
    numbers = {int(n) for n in _NUMBER.findall(message[: range_text.start()] + " " + message[range_text.end() :])}
    limit = next((n for n, a in drawn.items() if a.ndim == 0 and a.dtype.kind in "iu" and a == end), None)
    manner = Manner("range", least=least, end=end) if limit is None else Manner("under", limit, least=least)
    for name, array in drawn.items():
        holds = array.dtype.kind in "iu" and numbers.intersection(array.ravel().tolist())
        if end > least and name != limit and holds:
            yield name, manner


def _possible(name: str, array: np.ndarray, drawn: Arrays) -> list[Manner]:
    """The manners for one input, of a kind with its dtype and rank."""
    if array.dtype.kind == "O":
        return [Manner("numerals")]
    if array.dtype.kind == "f":
        return [Manner(kind) for kind in ("unit", *(["definite"] if _is_square(array) else []))]
    if array.dtype.kind not in "iu":
        return []
    manners = [Manner(kind) for kind in ("bits", "ones", "few", "zeros", *(["order"] if array.ndim == 1 else []))]
    for other, of in drawn.items():
        if other == name:
            continue
        axes = range(of.ndim)
        manners += [Manner("below", other, axis) for axis in axes]
        if array.ndim == 0:
            manners += [Manner("size", other, axis) for axis in axes]
        if array.ndim == 1:
            manners += [Manner(kind, other, axis) for axis in axes for kind in ("splits", "parts")]
            manners += [Manner("factors", other), Manner("shape", other)]
    return manners


def _is_large(array: np.ndarray) -> bool:
    """Whether an array has integers that ids and sizes hardly are."""
    return array.dtype.kind in "iu" and bool(((array < 0) | (array >= 100)).any())


def _is_square(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and array.ndim > 1 and array.shape[-1] == array.shape[-2]


def _definite(generator: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Symmetric matrices whose eigenvalues are positive."""
    root = generator.standard_normal(shape)
    return root @ np.swapaxes(root, -1, -2) + shape[-1] * np.eye(shape[-1])


def _splits(generator: np.random.Generator, count: int, n: int) -> np.ndarray:
    """Sorted numbers from 0 to n, both ends among them."""
    inner = np.sort(generator.integers(0, n + 1, max(count - 2, 0)))
    return np.concatenate([[0], inner, [n]])[:count]


def _parts(generator: np.random.Generator, count: int, n: int) -> np.ndarray:
    """Numbers that add up to n, none of them 0 where that can be: XNNPACK's products and windows take no empty part."""
    least = int(n >= count)
    return np.diff(_splits(generator, count + 1, n - least * count)) + least if count else np.zeros(0)


def _factors(generator: np.random.Generator, count: int, n: int) -> np.ndarray:
    """Sizes whose product is n."""
    factors = np.ones(count, np.int64)
    for divisor in range(2, n + 1):
        while count and n % divisor == 0:
            factors[generator.integers(count)] *= divisor
            n //= divisor
    return factors


def _as_shape(count: int, shape: Sequence[int]) -> np.ndarray:
    """The last sizes of a shape, padded in front with 2: a shape that it broadcasts to."""
    return np.array([2] * max(0, count - len(shape)) + list(shape)[max(0, len(shape) - count) :], np.int64)


_Kind = Callable[[Manner, np.random.Generator, np.ndarray, int, np.ndarray], Any]
_KINDS: Mapping[str, _Kind] = {
    SIZES: lambda manner, generator, drawn, n, other: drawn,
    "zeros": lambda manner, generator, drawn, n, other: np.zeros(drawn.shape),
    "ones": lambda manner, generator, drawn, n, other: np.ones(drawn.shape),
    "bits": lambda manner, generator, drawn, n, other: generator.integers(0, 2, drawn.shape),
    "few": lambda manner, generator, drawn, n, other: generator.integers(1, 4, drawn.shape),
    "range": lambda manner, generator, drawn, n, other: generator.integers(manner.least, manner.end, drawn.shape),
    "below": lambda manner, generator, drawn, n, other: generator.integers(0, max(n, 1), drawn.shape),
    "under": lambda manner, generator, drawn, n, other: generator.integers(
        manner.least, max(int(other), manner.least + 1), drawn.shape
    ),
    "size": lambda manner, generator, drawn, n, other: n,
    "lengths": lambda manner, generator, drawn, n, other: generator.integers(1, n + 1, drawn.shape),
    "sorted lengths": lambda manner, generator, drawn, n, other: -np.sort(-generator.integers(1, n + 1, drawn.shape)),
    "ascending": lambda manner, generator, drawn, n, other: np.sort(drawn),
    "order": lambda manner, generator, drawn, n, other: generator.permutation(drawn.size),
    "splits": lambda manner, generator, drawn, n, other: _splits(generator, drawn.size, n),
    "rows": lambda manner, generator, drawn, n, other: _splits(generator, drawn.size, max(n - 1, 0)),
    "parts": lambda manner, generator, drawn, n, other: _parts(generator, drawn.size, n),
    "factors": lambda manner, generator, drawn, n, other: _factors(generator, drawn.size, n),
    "shape": lambda manner, generator, drawn, n, other: _as_shape(drawn.size, other.shape),
    "unit": lambda manner, generator, drawn, n, other: generator.uniform(0, 1, drawn.shape),
    "definite": lambda manner, generator, drawn, n, other: _definite(generator, drawn.shape),
    "numerals": lambda manner, generator, drawn, n, other: generator.choice(_NUMERALS, drawn.shape),
}
"""The numbers of each kind.   n: the size that the manner names; other: the other input"""
