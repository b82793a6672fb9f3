"""Random programs of TensorFlow ops, and what they answer: eagerly, at every choice of the open sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

SIZES: tuple[Mapping[str, int], ...] = ({"B": 3, "T": 4}, {"B": 2, "T": 5}, {"B": 5, "T": 7})
"""What the open dimensions are while a program is drawn: every step must be valid at all of them."""

_MOST_ELEMENTS = 4096
_HIGHEST_RANK = 5
_LARGEST = {np.dtype(np.int8): 11, np.dtype(np.uint8): 11}  # products stay in range
_LARGEST_INTEGER = 10_000
_LARGEST_FLOAT = 1e6
_EPSILON = {np.dtype(np.float16): 2.0**-11}
_SEVERAL = 8.0  # roundings of a step that computes in several operators
_WORST_CONDITION = {np.dtype(np.float16): 1e-2}  # of the largest element: what is less certain tells nothing
_USUAL_CONDITION = 1e-4


@dataclass(frozen=True)
class Input:
    """An input: sizes, letters where they are open."""

    shape: tuple[int | str, ...]
    dtype: Any

    def array(self, sizes: Mapping[str, int], seed: int) -> np.ndarray:
        """Multiples of 1/4, so that ties and exact halves occur."""
        shape = tuple(sizes[d] if isinstance(d, str) else d for d in self.shape)
        rng = np.random.default_rng(seed)
        if self.dtype == np.bool_:
            return np.asarray(rng.random(shape) < 0.5)
        if np.dtype(self.dtype).kind in "iu":
            return np.asarray(rng.integers(-9 if np.dtype(self.dtype).kind == "i" else 0, 10, shape), self.dtype)
        return np.asarray(np.round(rng.standard_normal(shape) * 4) / 4, self.dtype)

    @property
    def spec(self) -> Any:
        """What a tf.function takes."""
        return tf.TensorSpec([None if isinstance(d, str) else d for d in self.shape], self.dtype)


@dataclass(frozen=True)
class Step:
    """One application of an op (or of a few, written as one) to earlier values.

    rounding: how many roundings of the largest element the result may be off by; 0 where the op is exact.
    """

    name: str
    call: Callable[..., Any]
    operands: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    rounding: float = 0

    def __call__(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The results."""
        results = self.call(*(tensors[i] for i in self.operands), **self.options)
        return tuple(results) if isinstance(results, list | tuple) else (results,)

    def __str__(self) -> str:
        arguments = [f"v{i}" for i in self.operands]
        arguments += [f"{k}={_printed(v)}" for k, v in self.options.items()]
        return f"{self.name}({', '.join(arguments)})"


def _printed(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) and value.size > 8 else repr(value)


@dataclass(frozen=True)
class Value:
    """What TensorFlow has for one value at each choice of sizes, and how far roundings may move its elements."""

    arrays: tuple[np.ndarray, ...]
    errors: tuple[float, ...]

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes; None where they follow from an open one."""
        return tuple(ds[0] if len(set(ds)) == 1 else None for ds in zip(*(a.shape for a in self.arrays), strict=True))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.arrays[0].ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self.arrays[0].dtype

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return self.dtype.kind == "f"


class Unfit(Exception):
    """A step that TensorFlow does not take, or whose result says nothing."""


def outcomes(step: Step, pool: Sequence[Value], *, empty: bool = False) -> list[Value]:
    """The results of a step on values of the pool; raises Unfit.

    empty: whether results may have no elements.
    """
    sides = [_at(step, pool, side, empty) for side in range(len(pool[0].arrays))]
    if len({len(s) for s in sides}) > 1:
        raise Unfit("another number of results at another size")
    values = []
    for results in zip(*sides, strict=True):
        if len({a.ndim for a, _ in results}) > 1:
            raise Unfit("another rank at another size")
        values.append(Value(tuple(a for a, _ in results), tuple(e for _, e in results)))
    return values


def _at(step: Step, pool: Sequence[Value], side: int, empty: bool) -> list[tuple[np.ndarray, float]]:
    exact = {i: pool[i].arrays[side] for i in step.operands}
    results = _run(step, exact)
    if any(not _fits(r, empty) for r in results):
        raise Unfit("too large, too small, or not finite")
    errors = {i: max(pool[i].errors[side], _within(step, exact[i])) for i in step.operands}
    moved = [0.0] * len(results)
    if any(errors.values()):
        for shift in _shifts(exact, errors):
            moved = [max(m, _distance(a, b)) for m, a, b in zip(moved, results, _run(step, shift), strict=True)]
    return [(r, _error(r, m, step.rounding)) for r, m in zip(results, moved, strict=True)]


def _within(step: Step, operand: np.ndarray) -> float:
    """How far roundings within a step move its result, as if they moved the operand: two of its largest element."""
    if step.rounding < _SEVERAL or operand.dtype.kind != "f":
        return 0.0
    return 2 * _EPSILON.get(operand.dtype, 2.0**-24) * float(np.abs(operand).max(initial=0.0))


def _shifts(arrays: Mapping[int, np.ndarray], errors: Mapping[int, float]) -> list[dict[int, np.ndarray]]:
    """The operands with their errors added: upward, downward and at random."""
    rng = np.random.default_rng(0)
    signs: list[Callable[[np.ndarray], Any]] = [
        lambda a: 1,
        lambda a: -1,
        lambda a: rng.choice([-1, 1], a.shape),
    ]
    return [
        {i: np.asarray(a + s(a) * errors[i], a.dtype) if errors[i] else a for i, a in arrays.items()} for s in signs
    ]


def _run(step: Step, arrays: Mapping[int, np.ndarray]) -> list[np.ndarray]:
    tensors = {i: tf.constant(a) for i, a in arrays.items()}
    try:
        results = step.call(*(tensors[i] for i in step.operands), **step.options)
    except Exception as error:  # whatever TensorFlow does not take
        raise Unfit(str(error)) from error
    results = results if isinstance(results, list | tuple) else (results,)
    return [np.asarray(r) for r in results]


def _fits(array: np.ndarray, empty: bool) -> bool:
    if array.size > _MOST_ELEMENTS or array.ndim > _HIGHEST_RANK or (array.size == 0 and not empty):
        return False
    if array.dtype.kind == "b" or not array.size:
        return True
    if array.dtype.kind in "iu":
        return bool(np.abs(array.astype(np.int64)).max() <= _LARGEST.get(array.dtype, _LARGEST_INTEGER))
    limit = 1e3 if array.dtype == np.float16 else _LARGEST_FLOAT
    return bool(np.isfinite(array).all() and np.abs(array).max() < limit)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    if a.shape != b.shape:
        raise Unfit("a shape that depends on rounding")
    if a.dtype.kind != "f":
        if not np.array_equal(a, b):
            raise Unfit("a choice that depends on rounding")
        return 0.0
    if not np.isfinite(b).all():
        raise Unfit("not finite when rounded otherwise")
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0.0))


def _error(result: np.ndarray, moved: float, rounding: float) -> float:
    if result.dtype.kind != "f":
        return 0.0
    largest = float(np.abs(result).max(initial=0.0))
    error = moved + rounding * _EPSILON.get(result.dtype, 2.0**-24) * largest
    if error > _WORST_CONDITION.get(result.dtype, _USUAL_CONDITION) * largest and error > 0:
        raise Unfit("too far off when rounded otherwise")
    return error


@dataclass(frozen=True)
class RandomProgram:
    """Inputs, steps with the numbers of their results, and which values are results."""

    inputs: tuple[Input, ...]
    steps: tuple[tuple[Step, int], ...]
    results: tuple[int, ...]

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """The results, in TensorFlow."""
        values = list(inputs)
        for step, _ in self.steps:
            values += step(values)
        return tuple(tf.identity(values[i]) for i in self.results)

    def function(self) -> Any:
        """The program as a tf.function with open sizes."""
        return tf.function(self, input_signature=[i.spec for i in self.inputs], autograph=False)

    def arrays(self, sizes: Mapping[str, int], seed: int = 0) -> list[np.ndarray]:
        """Inputs at some sizes."""
        return [x.array(sizes, seed + k) for k, x in enumerate(self.inputs)]

    def answers(self, inputs: Sequence[np.ndarray]) -> list[tuple[np.ndarray, float]]:
        """TensorFlow's results for inputs, each with how far roundings may move its elements; raises Unfit."""
        pool = [Value((a,), (0.0,)) for a in inputs]
        for step, _ in self.steps:
            pool += outcomes(step, pool, empty=True)
        return [(pool[i].arrays[0], pool[i].errors[0]) for i in self.results]

    def __repr__(self) -> str:
        lines = [f"v{i} = input({x.shape}, {np.dtype(x.dtype)})" for i, x in enumerate(self.inputs)]
        place = len(self.inputs)
        for step, count in self.steps:
            lines.append(f"{', '.join(f'v{place + i}' for i in range(count))} = {step}")
            place += count
        return "\n".join([*lines, f"return {', '.join(f'v{i}' for i in self.results)}"])
