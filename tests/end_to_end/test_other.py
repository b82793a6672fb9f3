"""Models that are no LSTM, from TensorFlow to LiteRT; and sources that give one clear error and no file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import jfuse
from jfuse.base.errors import ImportFailed, JfuseError, LowerError
from jfuse.running.interpreter import LiteRt
from tests.end_to_end.invokes import check_invokes
from tests.models import other
from tests.models.keras_libraries import LIBRARIES
from tests.models.sources import exported
from tests.slow import keras_3, slow_but


@pytest.mark.parametrize("name", other.MODELS)
def test_model(name: str) -> None:
    """Every other one is verified, too: what XLA computes is compared op by op elsewhere."""
    check_invokes(jfuse.convert(other.MODELS[name](), verify=name in list(other.MODELS)[::2]))


@pytest.mark.parametrize("library", slow_but(keras_3, LIBRARIES))
@pytest.mark.parametrize("kind", ["gru", "gru_reset_before", "masked"])
def test_recurrent_layers_that_stay_loops(kind: str, library: str) -> None:
    source = other.recurrent(kind, library)
    lite = jfuse.convert(source, forms=jfuse.Forms(loop="while"), verify=library == "keras")
    assert lite.report.operators["while"] == 1
    assert lite.report.refused != []
    check_invokes(lite)


def test_signatures_keep_their_names(tmp_path: Path) -> None:
    lite = jfuse.convert(exported(other.two_towers(), tmp_path / "model"))
    names = (("left", "right"), ("features", "score"))
    assert LiteRt(lite.to_bytes()).signatures() == {"serve": names, "serving_default": names}
    check_invokes(lite)


def test_two_signatures(tmp_path: Path) -> None:
    lite = jfuse.convert(other.TwoSignatures().save(tmp_path / "model"))
    found = LiteRt(lite.to_bytes()).signatures()
    assert found["shift"] == (("x",), ("input", "shifted"))
    assert found["again"] == found["scale"] == (("x",), ("scaled",))
    check_invokes(lite)


def test_weights_of_two_signatures_are_in_the_file_once(tmp_path: Path) -> None:
    module = other.TwoSignatures()
    both = jfuse.convert(module.save(tmp_path / "model"), verify=False)
    one = jfuse.convert(module.shift, verify=False)
    assert len(both.to_bytes()) - len(one.to_bytes()) < module.kernel.numpy().nbytes


def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = exported(other.two_towers(), tmp_path / "model")
    assert jfuse.convert(folder).to_bytes() == jfuse.convert(folder).to_bytes()


def no_rule(folder: Path) -> Any:
    return other.without_rule()


def corrupt(folder: Path) -> Path:
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"no protocol buffer")
    return folder


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (
            no_rule,
            LowerError,
            r"2 ops have no TFLite spelling(.|\n)*tf\.Dawsn(.|\n)*tf\.MatrixSquareRoot",
        ),
        (corrupt, ImportFailed, "cannot be read as a SavedModel"),
    ],
)
def test_errors(source: Callable[[Path], Any], error: type[JfuseError], message: str, tmp_path: Path) -> None:
    target = tmp_path / "model.tflite"
    with pytest.raises(error, match=message):
        jfuse.convert(source(tmp_path / "source")).save(target)
    assert not target.exists()
