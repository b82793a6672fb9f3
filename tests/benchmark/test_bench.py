"""`jfuse bench`: its figures by written formulas, its rows on real conversions, and its page."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from typer.testing import CliRunner

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.benchmark import one_conversion
from jfuse.benchmark.charts import charts
from jfuse.benchmark.page import benchmark_page
from jfuse.benchmark.picture import benchmark_picture, write_benchmark_picture
from jfuse.benchmark.result import Benchmark, BenchRow, Latency, to_json
from jfuse.cli import app as cli
from jfuse.frontends.example_model import export_example
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.programs.operator_times import OperatorTime, operator_times
from jfuse.reports.bars import COLOURS, Bar, BarGroup, bar_chart
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import KEY, f32, program

PEAK = """
import numpy as np
from jfuse.benchmark.peak_memory import begin_peak, peak_mib
held = np.ones(64 * 2**17)
begin_peak()
before = peak_mib()
del held
begin_peak()
less = peak_mib()
more = np.ones(128 * 2**17)
print(before, less, peak_mib())
"""


def test_median_and_percentile() -> None:
    """Of 1 to 11 us the median is 6, and nine of ten are at most 10; by NumPy for others."""
    found = Latency.of([n * 1e-6 for n in (11, 1, 10, 2, 9, 3, 8, 4, 7, 5, 6)])
    assert [found.median_us, found.p90_us] == pytest.approx([6, 10])
    drawn = np.random.default_rng(0).random(37)
    of_drawn = Latency.of(drawn.tolist())
    assert of_drawn.median_us == pytest.approx(1e6 * np.median(drawn))
    assert of_drawn.p90_us == pytest.approx(1e6 * np.percentile(drawn, 90, method="higher"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak")
def test_the_peak_of_memory_is_that_since_it_was_asked_for() -> None:
    run = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    before, less, more = map(float, run.stdout.split())
    assert before - less == pytest.approx(64, abs=8)
    assert more - less == pytest.approx(128, abs=8)


def test_each_operator_is_timed_alone_on_its_own_values() -> None:
    """A loop with its body, an operator that takes ids, and one that has nothing to be fed."""

    def model(x: Any) -> Any:
        ids = ops.cast(ops.abs_(x), out_data_type=DType.i32)
        return ops.gather(np.arange(40, dtype=np.float32).reshape(8, 5), ids, axis=0)

    data = to_bytes(program(model, f32(2, 3)))
    found = operator_times(data, KEY, {"x0": np.full((2, 3), -7.0, np.float32)})
    assert [o.op for o in found] == ["ABS", "CAST", "GATHER"]
    assert all(o.us is not None and 0 < o.us < 1e6 for o in found), found
    jitted = to_bytes(jfuse.convert(_counts, [_spec()], verify=False).program)
    (loop,) = [o for o in operator_times(jitted, KEY, {"x": np.ones(4, np.float32)}) if o.op == "WHILE"]
    assert loop.us is not None


def _counts(x: Any) -> Any:
    import jax

    return jax.lax.while_loop(lambda s: s.sum() < 100, lambda s: s * 2, x)


def _spec() -> Any:
    import jax

    return jax.ShapeDtypeStruct((4,), np.float32)


def row(name: str, **known: Any) -> BenchRow:
    return BenchRow(name, **known)


RESULT = Benchmark(
    "models/<b>.keras",
    "Linux, 2 cores",
    {"jfuse": "1"},
    {"x": "f32[1,3]"},
    (
        row(
            "jfuse",
            seconds=1.5,
            peak_mib=300.0,
            size_bytes=2048,
            operators={"ADD": 2},
            latency={1: Latency(10.0, 12.0), 2: Latency(20.0, 25.0)},
            difference=1e-7,
            profile=(OperatorTime("ADD", "a&b", 3.0), OperatorTime("VAR_HANDLE", "", None, "works on a variable")),
        ),
        row("official converter", error="ConverterError: <unknown>"),
    ),
)


def test_the_page_shows_every_row_and_escapes_names() -> None:
    page = benchmark_page([RESULT])
    assert "<b>" not in page
    assert "ConverterError: &lt;unknown&gt;" in page
    assert "a&amp;b" in page
    assert "works on a variable" in page
    titles = [ElementTree.fromstring(chart.svg).attrib["aria-label"] for chart in charts(RESULT)]
    assert [title.split(":")[0].split(" of ")[0] for title in titles] == [
        "Latency",
        "Largest error",
        "Conversion",
        "Peak memory",
        "File size",
    ]
    assert str(RESULT._repr_html_()) in page
    assert json.loads(json.dumps(to_json([RESULT])))["models"][0]["rows"][0]["latency"]["2"]["p90_us"] == 25.0


def test_the_picture_has_the_charts_of_the_page_in_their_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bar of 20 us is twice as long as that of 10 us above it; a picture of nothing is one, too."""
    pixels = matplotlib.image.imread(write_benchmark_picture([RESULT], tmp_path / "b.png"))[..., :3]
    one, two = (_lengths(pixels, colour) for colour in COLOURS[:2])
    second = int(np.flatnonzero(two > 50)[0])  # beyond the legend's square
    first = int(np.flatnonzero(one[:second] > 50)[-1])
    assert two[second + 2] == pytest.approx(2 * one[first - 2], abs=4)
    assert benchmark_picture([]).startswith(b"\x89PNG")
    monkeypatch.setattr("jfuse.benchmark.picture.find_spec", lambda name: None)
    with pytest.raises(JfuseError, match=r"matplotlib, which is not installed\n.*jfuse\[bench\]"):
        write_benchmark_picture([RESULT], tmp_path / "none.png")


def _lengths(pixels: np.ndarray, colour: str) -> np.ndarray:
    """How many pixels of each row have a colour."""
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return np.asarray(((255 * pixels).round() == wanted).all(-1).sum(1))


@pytest.mark.parametrize("by", ["jfuse", "official", "xla"])
def test_the_time_of_a_conversion_begins_before_the_source_is_read(by: str, tmp_path: Path) -> None:
    """Reading and imports are counted for all alike: nothing of it is done before the clock starts."""
    asked = {"signatures": None, "shapes": None, "batch": None}
    request = {"source": str(tmp_path / "none.keras"), "load": asked, "options": {}}
    work = one_conversion._WORKS[by](request)
    with pytest.raises(Exception, match=r"none\.keras"):
        work()


def test_bars_have_the_lengths_of_their_values() -> None:
    groups = [BarGroup(str(v), (Bar("s", v, f"{v}"),)) for v in (1.0, 10.0, 100.0)]

    def lengths(text: str) -> list[float]:
        rects = ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}rect")
        return [float(r.attrib["width"]) for r in rects][1:]

    one, ten, hundred = lengths(bar_chart("t", groups))
    assert ten / one == pytest.approx(10, rel=0.02)
    assert hundred / ten == pytest.approx(10, rel=0.02)
    one, ten, hundred = lengths(bar_chart("t", groups, logarithmic=True))
    assert hundred - ten == pytest.approx(ten - one, rel=0.01)


def test_only_files_are_measured() -> None:
    with pytest.raises(JfuseError, match=r"save the model first: model\.export"):
        jfuse.bench(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(JfuseError, match="positive numbers"):
        jfuse.bench("m.tflite", threads=[0])


@pytest.mark.slow
def test_a_model_from_the_command_line(tmp_path: Path) -> None:
    """All rows of a Keras 3 LSTM, which the official converter refuses, and one that is no file at all."""
    model, other = tmp_path / "model", tmp_path / "other.tflite"
    export_example(model)
    jfuse.convert(model, batch=1, verify=False).save(other)
    words = ["bench", model, "--batch", "1", "--threads", "1", "--seconds", "0.01", "--against", other]
    words += ["--json", tmp_path / "b.json", "--html", tmp_path / "b.html"]
    done = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    (found,) = json.loads((tmp_path / "b.json").read_text())["models"]
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["jfuse"]["operators"]["UNIDIRECTIONAL_SEQUENCE_LSTM"] == 1
    assert rows["jfuse, WHILE"]["operators"]["WHILE"] == 1
    assert "element_shape" in rows["official converter"]["error"]
    file = jfuse.bench(other, threads=[1], seconds=0.01, profile=False)
    assert [row.name for row in file.rows] == ["the file", "jfuse", "XLA"]
    assert file.row("the file").operators == file.row("jfuse").operators
    assert rows["other.tflite"]["size_bytes"] == other.stat().st_size
    for name in ("jfuse", "jfuse, WHILE", "other.tflite"):
        assert 0 <= rows[name]["difference"] < 1e-5
        assert rows[name]["latency"]["1"]["median_us"] <= rows[name]["latency"]["1"]["p90_us"]
    assert rows["XLA"]["latency"]["all"]["median_us"] > 0
    assert rows["jfuse"]["seconds"] > 0
    lstm = [o for o in rows["jfuse"]["profile"] if o["op"] == "UNIDIRECTIONAL_SEQUENCE_LSTM"]
    assert lstm[0]["us"] > 0
    assert "Latency of a call" in (tmp_path / "b.html").read_text()


@pytest.mark.slow
def test_a_convolution_as_the_official_converter_has_it(tmp_path: Path) -> None:
    import keras

    keras.utils.set_random_seed(0)
    path = tmp_path / "cnn.keras"
    keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3), keras.layers.Flatten()]).save(path)
    result = jfuse.bench(path, batch=2, quantize="int8", threads=[1], seconds=0.01, profile=False)
    assert [row.name for row in result.rows] == ["jfuse", "jfuse, int8", "official converter", "XLA"]
    assert "QUANTIZE" in result.row("jfuse, int8").operators
    official = result.row("official converter")
    assert official.error == ""
    assert official.difference is not None
    assert official.difference < 1e-5
    assert dict(official.operators)["CONV_2D"] == 1
