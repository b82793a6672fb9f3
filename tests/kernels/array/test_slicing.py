"""STRIDED_SLICE with every mask against TensorFlow, over a seeded sweep: kernel, rule, and rule on open dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.lowering.ops.array.slicing import lower_strided_slice
from tests.slow import slow_but

SIZES = (3, 4, 5)
X = np.arange(60, dtype=np.int32).reshape(SIZES)
SWEEP = 400


@dataclass(frozen=True)
class Masks:
    begin_mask: int
    end_mask: int
    ellipsis_mask: int
    new_axis_mask: int
    shrink_axis_mask: int


@dataclass(frozen=True)
class Spec:
    begin: np.ndarray
    end: np.ndarray
    strides: np.ndarray
    masks: Masks


def specs(count: int, seed: int) -> Iterator[tuple[Spec, np.ndarray]]:
    """Random slices that TensorFlow accepts, with its answers."""
    rng = np.random.default_rng(seed)
    while count:
        spec = _random_spec(rng)
        wanted = _tensorflow(spec)
        if wanted is not None:
            count -= 1
            yield spec, wanted


def _random_spec(rng: np.random.Generator) -> Spec:
    entries = int(rng.integers(1, 5))
    begin, end = (rng.integers(-7, 8, entries).astype(np.int32) for _ in range(2))
    strides = rng.choice(np.array([1, 1, 1, 2, -1, -3], np.int32), entries)
    ellipsis = 1 << int(rng.integers(entries)) if rng.random() < 0.3 else 0
    flags = [sum(int(rng.random() < p) << i for i in range(entries)) for p in (0.3, 0.3, 0.2, 0.3)]
    return Spec(begin, end, strides, Masks(flags[0], flags[1], ellipsis, flags[2], flags[3]))


def _tensorflow(spec: Spec) -> np.ndarray | None:
    import tensorflow as tf

    try:
        result = tf.raw_ops.StridedSlice(
            input=X, begin=spec.begin, end=spec.end, strides=spec.strides, **asdict(spec.masks)
        )
    except tf.errors.InvalidArgumentError:
        return None
    return np.asarray(result.numpy())


@pytest.fixture(scope="module")
def sweep() -> list[tuple[Spec, np.ndarray]]:
    return list(specs(SWEEP, seed=7))


def test_the_sweep_has_every_pair_of_masks(sweep: list[tuple[Spec, np.ndarray]]) -> None:
    used = [{name for name, mask in asdict(spec.masks).items() if mask} for spec, _ in sweep]
    names = asdict(sweep[0][0].masks)
    assert all(any({a, b} <= masks for masks in used) for a in names for b in names)
    assert sum(wanted.size > 1 for _, wanted in sweep) > SWEEP / 4


def test_the_kernel(sweep: list[tuple[Spec, np.ndarray]]) -> None:
    for spec, wanted in sweep:
        masks = spec.masks
        if masks.begin_mask & masks.shrink_axis_mask:
            continue  # TFLite takes the first element there, TensorFlow the one at begin
        found = ops.strided_slice(X, spec.begin, spec.end, spec.strides, **asdict(masks))
        np.testing.assert_array_equal(found, wanted, err_msg=str(spec))


def test_the_rule_on_arrays(sweep: list[tuple[Spec, np.ndarray]]) -> None:
    for spec, wanted in sweep:
        found = lower_strided_slice(X, spec.begin, spec.end, spec.strides, **asdict(spec.masks))
        assert found.shape == wanted.shape, spec
        np.testing.assert_array_equal(found, wanted, err_msg=str(spec))


@pytest.mark.parametrize("part", slow_but(lambda part: part == 0, range(6)))
def test_the_rule_on_open_dimensions(part: int, sweep: list[tuple[Spec, np.ndarray]]) -> None:
    names = ("B", "T", "C")
    open_type = TensorType(tuple(symbol(n) for n in names), DType.i32)
    for spec, wanted in sweep[part::6]:

        def call(x: Any, spec: Spec = spec) -> Any:
            return lower_strided_slice(x, spec.begin, spec.end, spec.strides, **asdict(spec.masks))

        graph = trace_graph(call, [open_type])
        check_graph(graph)
        at_sizes = graph.outputs[0].type.substitute(dict(zip(names, SIZES, strict=True)))
        assert at_sizes.shape == wanted.shape, spec
        np.testing.assert_array_equal(evaluate(graph, [X])[0], wanted, err_msg=str(spec))


def test_an_offset_end_counts_from_begin() -> None:
    found = ops.strided_slice(X, [1, 2], [2, 1], [1, 1], offset=True)
    np.testing.assert_array_equal(found, X[1:3, 2:3])
