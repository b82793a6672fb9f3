"""Keras 3 and tf_keras models, in all ways of handing them over."""

from __future__ import annotations

import json
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import keras
import pytest

import jfuse
from jfuse.base.errors import ImportFailed
from tests.frontends.against_tensorflow import check_model, spec
from tests.models import other
from tests.models.keras_libraries import LIBRARIES
from tests.models.recurrences.lstm_keras import KerasLstm
from tests.models.sources import SOURCES, exported, keras_file
from tests.slow import keras_3, slow_but

BUILDS = (other.two_towers, other.dict_inputs, other.sequential, other.embedding_classifier)


@pytest.mark.parametrize(
    ("build", "library", "way"),
    slow_but(lambda row: row[0] is BUILDS[0] or row[1] == "keras", product(BUILDS, LIBRARIES, SOURCES)),
)
def test_ways(build: Any, library: str, way: str, tmp_path: Path) -> None:
    model = build(library)  # a concrete function holds the variables weakly
    check_model(jfuse.load(SOURCES[way](model, tmp_path / "model")))


@pytest.mark.parametrize("way", ["export", "saved_model", "keras_file"])
@pytest.mark.parametrize("library", slow_but(keras_3, LIBRARIES))
def test_saved_lstms(library: str, way: str, tmp_path: Path) -> None:
    model = KerasLstm(library=library, units=4, return_state=True).build()
    check_model(jfuse.load(SOURCES[way](model, tmp_path / "model")))


@pytest.mark.parametrize("library", LIBRARIES)
def test_export_gives_two_keys_and_one_graph(library: str, tmp_path: Path) -> None:
    model = jfuse.load(exported(other.two_towers(library), tmp_path / "model"))
    assert list(model.signatures) == ["serve", "serving_default"]
    assert len(model.program.graphs()) == 1
    assert model.signature().input_names == ("left", "right")
    assert model.signature().output_names == ("features", "score")


@pytest.mark.parametrize("library", LIBRARIES)
def test_names_of_a_model_object(library: str) -> None:
    signature = jfuse.load(other.two_towers(library)).signature()
    assert signature.key == "serving_default"
    assert signature.input_names == ("left", "right")
    assert signature.output_names == ("features", "score")


def test_export_with_a_fixed_batch(tmp_path: Path) -> None:
    model = jfuse.load(exported(KerasLstm(batch=4).build(), tmp_path / "model"))
    assert model.signature().graph.inputs[0].type.shape == (4, 7, 5)


def test_sizes_of_a_model_object_can_be_fixed() -> None:
    model = jfuse.load(other.sequential(), jfuse.Inputs(input_signature=[spec(3, 6)]))
    assert model.signature().graph.inputs[0].type.shape == (3, 6)
    with pytest.raises(ImportFailed, match=r"the model has 2 inputs\n.*an input_signature of 1"):
        jfuse.load(other.two_towers(), jfuse.Inputs(input_signature=[spec(3, 6)]))


class Doubling(keras.Model):
    """A model that only its call describes."""

    def call(self, x: Any) -> Any:
        return x * 2.0


class Failing(keras.Model):
    """A model whose call fails."""

    def call(self, x: Any) -> Any:
        raise ValueError("the layer's own words")


def test_a_subclassed_model() -> None:
    check_model(jfuse.load(Doubling(), jfuse.Inputs(input_signature=[spec(None, 3)])))
    with pytest.raises(ImportFailed, match=r"does not know its inputs\n.*pass inputs=jfuse.Inputs\(input_signature="):
        jfuse.load(Doubling())


def test_a_model_that_fails() -> None:
    with pytest.raises(ImportFailed, match=r"could not be traced\n.*the layer's own words"):
        jfuse.load(Failing(name="failing"), jfuse.Inputs(input_signature=[spec(None, 3)]))


def test_a_file_of_keras_2_names_the_library_that_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "old.h5", "w") as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": {"layers": []}})
        file.attrs["keras_version"] = "2.15.0"
    monkeypatch.setattr("jfuse.frontends.keras.find_spec", lambda name: None)
    with pytest.raises(
        ImportFailed, match=r"is one of Keras 2(.|\n)*tf_keras is not installed\n.*pip install tf_keras"
    ):
        jfuse.load(tmp_path / "old.h5")


def test_a_corrupt_file(tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    path.write_bytes(b"no archive")
    with pytest.raises(ImportFailed, match=r"cannot be read as a \.keras file\n.*not a zip file"):
        jfuse.load(path)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_file_with_a_layer_that_is_not_there(library: str, tmp_path: Path) -> None:
    path = keras_file(other.sequential(library), tmp_path / "whole")
    broken = tmp_path / "broken.keras"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(broken, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "config.json":
                config = json.loads(data)
                config["config"]["layers"][1] |= {"class_name": "Missing", "module": "nowhere", "registered_name": "x"}
                data = json.dumps(config).encode()
            target.writestr(name, data)
    with pytest.raises(ImportFailed, match=r"is not loaded: it names nowhere\.Missing"):
        jfuse.load(broken)
    with pytest.raises(ImportFailed, match=r"cannot be read as a \.keras file"):
        jfuse.load(broken, unsafe=True)
