"""Statistics: ranges against formulas on the numbers themselves; files and merges against one run over everything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Program, Signature, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.quantization.histogram import BINS, bin_of, counted, edges
from jfuse.quantization.statistics import Observed, Record, Statistics


def one_value(scale: float = 1.0) -> tuple[Program, Observed]:
    """A program of one input, and that input.   scale: a constant in it, so that programs differ"""
    graph = trace_graph(lambda x: ops.mul(x, np.float32(scale)), [TensorType((4,), DType.f32)])
    return Program((Signature("call", graph, ("x",), ("y",)),)), Observed(graph.inputs[0])


def seen(program: Program, what: Observed, *calls: np.ndarray) -> Statistics:
    """Statistics of these calls."""
    statistics = Statistics(program)
    lows, highs = ([float(f(c)) for c in calls] for f in (np.min, np.max))
    counts = sum((counted(c.astype(np.float32)) for c in calls), np.zeros(BINS, np.int64))
    record = Record.of_calls(np.array(lows), np.array(highs), np.zeros(len(calls), bool), counts)
    return Statistics(program, {statistics.key(what): record})


def test_every_number_lies_between_the_edges_of_its_bin() -> None:
    drawn = np.random.default_rng(0).standard_normal(5000) * np.exp2(np.random.default_rng(1).integers(-40, 34, 5000))
    x = np.concatenate([drawn, [0.0, -0.0, 1.0, -1.0, 2.0**-32, -(2.0**-33), 2.0**31]]).astype(np.float32)
    low, high = (edge[bin_of(x)] for edge in edges())
    usual = (np.abs(x) >= 2.0**-32) & (np.abs(x) < 2.0**32)
    assert np.all((low <= x)[usual])
    assert np.all((x <= high)[usual])
    assert np.all((high - low)[usual] <= np.abs(x)[usual] / 127)
    assert np.all(bin_of(x[np.abs(x) < 2.0**-32]) == bin_of(np.zeros(1, np.float32))[0])


def test_every_number_counts_in_its_bin() -> None:
    """Also those below and above all bins, and zeros of either sign; NaNs and infinities do not."""
    drawn = np.random.default_rng(2).standard_normal(5000) * np.exp2(np.random.default_rng(3).integers(-60, 60, 5000))
    x = np.concatenate([drawn, [0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38]]).astype(np.float32)
    counts = counted(np.concatenate([x, np.array([np.nan, np.inf, -np.inf], np.float32)]))
    np.testing.assert_array_equal(counts, np.bincount(bin_of(x), minlength=BINS))


def test_ranges_of_a_normal_distribution() -> None:
    program, what = one_value()
    x = np.random.default_rng(0).standard_normal(20_000).astype(np.float32)
    x[0] = 40.0  # one outlier
    statistics = seen(program, what, x)
    assert statistics.range(what) == (float(x.min()), 40.0)
    low, high = statistics.range(what, "percentile", percent=99.9)
    # 0.05: a bin at 3 is 1/64 wide, and 20 numbers lie beyond the quantile
    np.testing.assert_allclose((low, high), np.quantile(x, (0.001, 0.999)), atol=0.05)

    def error(low: float, high: float) -> float:
        step = (high - low) / 255
        steps = np.clip(np.round(x / step), np.round(low / step), np.round(high / step))
        return float(np.mean((steps * step - x) ** 2))

    low, high = statistics.range(what, "mse")
    tried = min(error(a, b) for a in np.linspace(-6, -3, 13) for b in np.linspace(3, 41, 77))
    assert error(low, high) <= 1.05 * tried
    low, high = statistics.range(what, "mse", symmetric=True)
    assert low == -high or low == x.min()
    low, high = statistics.range(what, "entropy")
    assert 3 < high < 6
    assert -6 < low < -3


def result_of(size: int) -> tuple[Program, Observed]:
    """A program and the value that it computes: f32[size]."""
    graph = trace_graph(ops.tanh, [TensorType((size,), DType.f32)])
    program = Program((Signature("call", graph, ("x",), ("y",)),))
    return program, Observed(graph.eqns[0].outputs[0])


def noise(ends: tuple[float, float], x: np.ndarray) -> float:
    """The mean square by which 255 steps are off, with 0 among them."""
    low, high = min(ends[0], 0.0), max(ends[1], 0.0)
    step = (high - low) / 255
    return float(np.mean((np.clip(np.round(x / step), np.round(low / step), np.round(high / step)) * step - x) ** 2))


@pytest.mark.parametrize("size", [1, 4, 64])
def test_few_numbers_leave_room_for_those_of_other_calls(size: int) -> None:
    """On other calls, the noise over 20 calibrations of 32 calls; an oracle of drawn numbers."""
    program, what = result_of(size)
    found: dict[str, list[float]] = {"minmax": [], "extrapolated": []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        statistics = seen(program, what, *rng.standard_normal((32, size)))
        others = rng.standard_normal(20_000)
        for algorithm, errors in found.items():
            errors.append(noise(statistics.range(what, algorithm), others))
    assert np.mean(found["extrapolated"]) < 0.75 * np.mean(found["minmax"])


def test_many_numbers_and_those_that_end_alike_need_no_room() -> None:
    program, what = result_of(1)
    rng = np.random.default_rng(0)
    alike = [np.append(rng.uniform(0, 1, 3), (0.0, 1.0)) for _ in range(32)]
    assert seen(program, what, *alike).range(what, "extrapolated") == (0.0, 1.0)
    never_negative = seen(program, what, *np.abs(rng.standard_normal((32, 1))))
    low, high = never_negative.range(what, "extrapolated")
    assert (low >= 0, high > never_negative.range(what)[1]) == (True, True)
    assert never_negative.range(what, "extrapolated", bits=16)[1] > high, "finer steps cost less"
    once = seen(program, what, rng.standard_normal(1))
    assert once.range(what, "extrapolated") == once.range(what)
    program, what = result_of(1 << 20)
    many = seen(program, what, *rng.standard_normal((32, 1)))  # the extremes stand for as many as the type says
    assert many.range(what, "extrapolated") == many.range(what)


def test_an_input_has_the_range_that_was_given() -> None:
    program, _ = result_of(1)
    given = Observed(program.signatures[0].graph.inputs[0])
    statistics = seen(program, given, *np.random.default_rng(0).standard_normal((32, 1)))
    assert statistics.range(given, "extrapolated") == statistics.range(given)


def test_a_moving_average_weighs_the_newest_call_most() -> None:
    program, what = one_value()
    calls = [np.array([-float(i), 2.0 * i]) for i in range(1, 8)]
    weights = 0.95 ** np.arange(7)[::-1]
    wanted = [weights @ [c[i] for c in calls] / weights.sum() for i in (0, 1)]
    np.testing.assert_allclose(seen(program, what, *calls).range(what, "moving_average"), wanted)


@pytest.mark.parametrize("algorithm", ["minmax", "moving_average", "percentile", "mse", "entropy"])
def test_merged_and_saved_statistics_are_those_of_all_calls(tmp_path: Path, algorithm: str) -> None:
    program, what = one_value()
    calls = [np.random.default_rng(i).standard_normal(100) * (i + 1) for i in range(5)]
    seen(program, what, *calls[:2]).save(tmp_path / "a.npz")
    again, place = one_value()  # another run, with other objects
    first = Statistics.load(tmp_path / "a.npz", again)
    both = first.merge(seen(program, what, *calls[2:]))
    whole = seen(program, what, *calls).range(what, algorithm)
    np.testing.assert_allclose(both.range(place, algorithm), whole, rtol=1e-12)


def test_half_a_histogram_is_none() -> None:
    program, what = one_value()
    with_one, without = (
        seen(program, what, np.ones(3)),
        Statistics(program, {"call/input:0": Record((0.0, 1.0), calls=1)}),
    )
    for both in (with_one.merge(without), without.merge(with_one)):
        assert both.record(what).calls == 2
        with pytest.raises(JfuseError, match="percentile needs a histogram"):
            both.range(what, "percentile")
    assert with_one.merge(Statistics(program)).range(what, "percentile") == with_one.range(what, "percentile")


def test_what_cannot_be_told_is_an_error(tmp_path: Path) -> None:
    program, what = one_value()
    with pytest.raises(JfuseError, match="calibration never saw this value at input 'x'"):
        Statistics(program).range(what)
    extremes = Statistics(program, {"call/input:0": Record((0.0, 1.0), (0.0, 1.0, 1.0), 1)})
    assert extremes.range(what, "moving_average") == (0.0, 1.0)
    with pytest.raises(JfuseError, match="mse needs a histogram"):
        extremes.range(what, "mse")
    with pytest.raises(JfuseError, match="no calibration algorithm 'best'"):
        extremes.range(what, "best")
    with pytest.raises(JfuseError, match="no such value"):
        extremes.seen(Observed(Var(TensorType((), DType.f32))))
    extremes.save(tmp_path / "a.npz")
    with pytest.raises(JfuseError, match="of another program"):
        Statistics.load(tmp_path / "a.npz", one_value(2.0)[0])
    (tmp_path / "b.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-40])
    with pytest.raises(JfuseError, match="cannot be read as"):
        Statistics.load(tmp_path / "b.npz", program)
