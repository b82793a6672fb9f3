"""Inputs for proofs: rows at several scales, exact zeros, extremes, and both sides of every compared constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from jfuse.ir.dims import Dim, is_known, symbols_of
from jfuse.ir.graph import Const, Graph, Var
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.lowering.rule_tools.case_distinctions import switch_of
from jfuse.proof.inputs import concrete
from jfuse.proof.ranges import integer_limits

_SCALES = (1e-4, 1e-2, 0.1, 1.0, 10.0)
_MOST_ELEMENTS = 2**21  # of all inputs of one case together
_MOST_COMPARED = 16
_LEAST_WITH_INFINITIES = 8  # samples of a case: of fewer none has infinities
_INFINITE = 0.1  # of the elements of such a sample
_NO_STEPS: Mapping[str, int] = MappingProxyType({})
_LARGEST_INTEGER = 100  # for integers that no dimension gives a bound for


@dataclass(frozen=True)
class Case:
    """One set of sizes: the shape of each input, and how many samples to draw."""

    shapes: tuple[tuple[int, ...], ...]
    count: int

    @classmethod
    def of(cls, shapes: Sequence[tuple[int, ...]], most: int) -> Case:
        """As many samples as fit, up to `most`."""
        elements = sum(int(np.prod(s)) for s in shapes)
        return cls(tuple(shapes), max(3, min(most, _MOST_ELEMENTS // max(1, elements))))


def open_shapes(types: Sequence[TensorType], steps: Mapping[str, int] = _NO_STEPS) -> list[tuple[tuple[int, ...], ...]]:
    """Three sets of shapes for types with symbols (batch 1, 2 and 9 where that is the symbol), one without.

    steps: for symbols that loops run over, how many steps the last set has.
    """
    names = sorted({name for t in types for d in t.shape for name in symbols_of(d)})
    if not names:
        return [tuple(concrete(t.shape, {}) for t in types)]
    choices = [
        {name: 1 for name in names},
        {name: 2 + i for i, name in enumerate(names)},
        {name: steps.get(name, 9 if i == 0 else 1 + i) for i, name in enumerate(names)},
    ]
    return [_positive(types, sizes) for sizes in choices]


def _positive(types: Sequence[TensorType], sizes: Mapping[str, int]) -> tuple[tuple[int, ...], ...]:
    """The shapes at the least sizes from the given ones on that leave no dimension below 1 (a dimension may be T-2)."""
    for more in range(64):
        larger: Mapping[str, Dim] = {name: size + more for name, size in sizes.items()}
        shapes = tuple(concrete(t.shape, larger) for t in types)
        if all(d >= 1 for shape in shapes for d in shape):
            return shapes
    return shapes


@dataclass(frozen=True)
class Padded:
    """A mask without gaps along an axis: True up to a length and then False (side "right"), or the reverse ("left").

    Of floats it is 1 where it is True, and 0 elsewhere.
    """

    axis: int
    side: str

    def draw(self, random: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
        """A mask of that shape with random lengths, those of nothing and of everything among them.   bool[*shape]"""
        steps = shape[self.axis]
        lengths = random.integers(0, steps + 1, [1 if i == self.axis else d for i, d in enumerate(shape)])
        places = np.arange(steps).reshape([-1 if i == self.axis else 1 for i in range(len(shape))])
        return places < lengths if self.side == "right" else places >= steps - lengths


@dataclass(frozen=True)
class Sampler:
    """Draws inputs for the graph whose switches and lookups decide what is worth trying."""

    inputs: Sequence[Var]
    limits: Mapping[Var, int]
    compared: Sequence[float]
    largest: int
    padded: Mapping[Var, Padded]
    held: Mapping[Var, np.ndarray]
    scales: Sequence[float] = _SCALES
    is_steady: bool = False

    @classmethod
    def of(
        cls,
        *graphs: Graph,
        padded: Mapping[Var, Padded] = MappingProxyType({}),
        held: Mapping[Var, np.ndarray] = MappingProxyType({}),
    ) -> Sampler:
        """A sampler for the inputs of the first graph.

        padded: the masks among them that have no gaps. held: constants that are broadcast to their shapes.
        """
        first = graphs[0]
        limits, compared = integer_limits(first), compared_constants(graphs)
        return cls(first.inputs, limits, compared, _largest_size(first), padded, held)

    def beyond(self, limit: float) -> Sampler:
        """A sampler of numbers around a limit and far beyond it, whose rows and steps are alike in every other sample.

        What enters a state in the same direction at each step makes it as large as it can grow.
        """
        return replace(self, scales=(1.0, 10.0, limit, 10 * limit), is_steady=True)

    def draw(self, case: Case, seed: int) -> list[np.ndarray]:
        """One array for each input, samples along the first axis; f32 is drawn as f64."""
        random = np.random.default_rng(seed)
        return [self._array(random, v, s, case.count) for v, s in zip(self.inputs, case.shapes, strict=True)]

    def infinite(self, case: Case) -> int:
        """How many samples hold infinities; they are the last ones."""
        some = case.count >= _LEAST_WITH_INFINITIES and any(v.type.dtype.is_float for v in self.inputs)
        return 2 if some else 0

    def _array(self, random: np.random.Generator, var: Var, shape: tuple[int, ...], count: int) -> np.ndarray:
        dtype = var.type.dtype
        if var in self.held:
            held = np.broadcast_to(self.held[var], (count, *shape))
            return held.astype(np.float64 if dtype is DType.f32 else dtype.numpy)
        if dtype is DType.bool or var in self.padded:
            array = random.integers(0, 2, (count, *shape)).astype(np.float64 if dtype is DType.f32 else dtype.numpy)
            array[0], array[1] = False, True
            if var in self.padded:
                array[2:] = [self.padded[var].draw(random, shape) for _ in array[2:]]
            return array
        if dtype.is_integer:
            return self._integers(random, var, (count, *shape))
        array = self._floats(random, (count, *shape))
        return array if dtype in (DType.f32, DType.f64) else array.astype(dtype.numpy)

    def _floats(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        array = random.standard_normal(shape)
        scales = random.choice(self.scales, shape[0])
        array *= scales.reshape(-1, *[1] * (len(shape) - 1))
        if self.is_steady and len(shape) > 2:
            array[::2] = (
                array[::2]
                .reshape(-1, int(np.prod(shape[1:-1])), shape[-1])[:, :1]
                .reshape(-1, *[1] * (len(shape) - 2), shape[-1])
            )
        array[0] = 0.0
        if len(shape) > 1:
            array[4::5, :1] = 0.0  # one row of zeros among others
        for i, value in enumerate(self.compared):
            step = max(abs(value), 1.0) * 1e-3
            near = random.choice([value, value - step, value + step], shape[1:])
            mixed = random.random(shape[1:]) < 0.5
            target = 1 + i % max(1, shape[0] - 1)
            array[target] = np.where(mixed, near, array[target])
        if shape[0] >= _LEAST_WITH_INFINITIES:
            _put_infinities(random, array)
        return array

    def _integers(self, random: np.random.Generator, var: Var, shape: tuple[int, ...]) -> np.ndarray:
        dtype = var.type.dtype.numpy
        if var in self.limits:
            array = random.integers(0, self.limits[var], shape).astype(dtype)
            array[0], array[1] = 0, self.limits[var] - 1
            return array
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        array = random.integers(max(least, -3), min(most, self.largest + 3), shape).astype(dtype)
        edges = np.array([e for e in (least, -1, 0, self.largest - 1, self.largest, most) if least <= e <= most], dtype)
        array = np.where(random.random(shape) < 0.2, random.choice(edges, shape), array)
        return np.where(random.random(shape) < 0.1, random.integers(least, most, shape, dtype, endpoint=True), array)


def _put_infinities(random: np.random.Generator, array: np.ndarray) -> None:
    """Make the last sample infinite in one element, the one before it in some.

    A product with a matrix that was made up multiplies an infinite element by zeros, which gives NaN.
    """
    some, one = array[-2].reshape(-1), array[-1].reshape(-1)
    chosen = random.random(some.size) < _INFINITE
    some[chosen] = random.choice([np.inf, -np.inf], np.count_nonzero(chosen))
    if one.size:
        one[random.integers(one.size)] = random.choice([np.inf, -np.inf])


def compared_constants(graphs: Sequence[Graph], integers: bool = False) -> list[float]:
    """The constants that the graphs compare with, a few of them: floats, or integers."""
    constants: dict[float, None] = {}
    for graph in graphs:
        for eqn in all_eqns(graph):
            if switch_of(eqn) is None:
                continue
            for atom in eqn.inputs:
                if isinstance(atom, Const) and (atom.type.dtype.is_integer if integers else atom.type.dtype.is_float):
                    constants.update(
                        (float(v), None) for v in atom.array.reshape(-1)[:_MOST_COMPARED] if np.isfinite(v)
                    )
    return list(constants)[:_MOST_COMPARED]


def _largest_size(graph: Graph) -> int:
    """The greatest known dimension in a graph: integers up to about that are worth trying."""
    types = [a.type for e in all_eqns(graph) for a in (*e.inputs, *e.outputs) if a is not None]
    return max((int(d) for t in types for d in t.shape if is_known(d)), default=_LARGEST_INTEGER)
