"""The page of examples/browser runs recurrent files in LiteRT.js, which answer like Keras in call after call."""

from __future__ import annotations

from pathlib import Path

import keras
import pytest

import jfuse
from bench.runs_on import COLUMNS, Place, measured
from bench.runtimes.litert_js import LiteRtJs, why_missing
from bench.runtimes.models import MODELS
from tests.browser import Browser
from tests.slow import slow_but

NAMES = (
    "LSTM, 8 units",
    "stream, LSTM, in and out",
    "biLSTM",
    "GRU",
    "LSTM, stacked",
    "LSTM, stateful",
    "LSTM, masked",
    "keyword spotter",
)
(COLUMN,) = (column for column in COLUMNS if column.runtime == "LiteRT.js")
pytestmark = pytest.mark.skipif(bool(why_missing()), reason=why_missing() or "it is there")


@pytest.mark.parametrize("name", slow_but(lambda name: name in NAMES[:2], NAMES))
def test_answers_like_keras(name: str, browser: Browser, tmp_path: Path) -> None:
    """Five calls, to 1e-5 of the largest output."""
    assert measured(MODELS[name](), Place({}, browser, tmp_path), [COLUMN]) == {"LiteRT.js": "right"}


def test_a_file_for_interpreter_alone_is_refused(browser: Browser) -> None:
    """And the page shows what the next one answers."""
    model = keras.Sequential([keras.Input(batch_shape=(1, 4, 3)), keras.layers.LSTM(5)])
    with LiteRtJs(browser) as page:
        with pytest.raises(jfuse.JfuseError, match=r"LiteRT\.js does not run the file"):
            page.load(jfuse.convert(model, verify=False).to_bytes())
        page.load(jfuse.convert(model, target="compiled-model", verify=False).to_bytes())
        page.show()
        shown = page.text("#answers").splitlines()
    assert [line.partition(":")[0] for line in shown] == [f"call {n}, output_0" for n in (1, 2, 3)]
    assert len({line.partition(":")[2] for line in shown}) == 3
