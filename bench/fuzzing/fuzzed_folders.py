"""`python -m bench.fuzz --folders`: SavedModels, mutated as `bench/folder_mutations.py` does; and how one is tried."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import jfuse
from bench.fuzzing.findings import Findings
from bench.fuzzing.folder_mutations import mutated, packed, unpacked
from bench.fuzzing.fuzzed_files import LIMITS, drawn, on_xla
from jfuse.frontends.example_model import export_example

SECRET = "/tmp/jfuse-fuzz/secret"  # where nothing of a folder may read or write
TEXT = "a secret of this machine"
_MEMORY = 2**35  # bytes of addresses: TensorFlow's initializers, which it runs as it loads, have no limit of their own


class Folders:
    """Loaded and printed; some of them lowered, and executed on XLA.

    execute: the share of those that load.
    """

    def __init__(self, execute: float) -> None:
        self._execute = execute
        self._folder = Path(tempfile.gettempdir(), f"jfuse-fuzz-{os.getpid()}")
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        Path(SECRET).parent.mkdir(exist_ok=True)

    def firsts(self) -> list[bytes]:
        """The folders that mutations begin with."""
        found = []
        for make in _SEEDS:
            with tempfile.TemporaryDirectory() as temporary:
                make(Path(temporary, "model"))
                root = Path(temporary, "model")
                found.append(packed({str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}))
        return found

    def mutated(self, data: bytes, rng: np.random.Generator) -> bytes:
        """Another folder."""
        return packed(mutated(unpacked(data), SECRET, rng))

    def is_worth_more(self, way: str) -> bool:
        """All that load are."""
        return True

    def tried(self, data: bytes, rng: np.random.Generator, findings: Findings) -> tuple[bool, str]:
        """Whether a folder loads, and what became of it, in words without its numbers."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for name, of in unpacked(data).items():
            (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / name).write_bytes(of)
        Path(SECRET).write_text(TEXT)
        try:
            return self._tried(rng, findings)
        finally:
            if Path(SECRET).read_text() != TEXT or len(list(Path(SECRET).parent.iterdir())) > 1:
                findings.note("a folder has written to a file of this machine")
            shutil.rmtree(self._folder, ignore_errors=True)

    def _tried(self, rng: np.random.Generator, findings: Findings) -> tuple[bool, str]:
        model: Any = None
        with findings.at("load") as load:
            model = jfuse.load(self._folder, limits=LIMITS)
            text = str(model)
        if load.refused:
            return False, load.way
        findings.counts["load: loaded"] += 1
        findings.counts["load: by TensorFlow"] += any("loader" in note for note in model.report.notes)
        if TEXT in text:
            findings.note("a folder has read a file of this machine")
        if rng.random() >= self._execute:
            return True, "loaded"
        findings.counts["executed"] += 1
        with findings.at("lower") as lowered:
            jfuse.lower(model).to_bytes()
        inputs = drawn(model.program, findings)
        ran = "" if inputs is None else on_xla(model.program, *inputs, findings)
        return True, f"{lowered.way}; {ran}"


def _looping(path: Path) -> None:
    """A variable, a loop and a branch."""
    import tensorflow as tf

    from tests.attack.test_damaged_folders import Looping

    tf.saved_model.save(Looping(), str(path))


def _with_vocabulary(path: Path) -> None:
    """A table that a file fills, which TensorFlow loads."""
    import tensorflow as tf

    from tests.attack.test_saved_models import Initialized

    with tempfile.TemporaryDirectory() as temporary:
        words = Path(temporary, "words.txt")
        words.write_text("a\nb\n")
        tf.saved_model.save(Initialized(str(words)), str(path))


def _of_tensorflow_1(path: Path) -> None:
    """A graph with a saver, which TensorFlow loads."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2], "x")
        weights = v1.get_variable("w", initializer=np.array([2, 3], np.float32), use_resource=True)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(path), {"x": x}, {"y": x * weights})


def _convolutions(path: Path) -> None:
    """Ops with many attributes and constants among their operands."""
    import tensorflow as tf

    filters = np.random.default_rng(1).normal(size=(3, 3, 2, 4)).astype(np.float32)

    def call(x: Any) -> Any:
        y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, filters, 2, "SAME")), 2, 2, "VALID")
        y = tf.transpose(tf.reshape(y[:, ::2, 1:], [tf.shape(x)[0], -1, 4]), [0, 2, 1])
        top, places = tf.math.top_k(tf.concat([y, tf.cumsum(y, 2)], 1), 1)
        return {"top": tf.squeeze(top, -1), "places": tf.gather(tf.one_hot(places, 3), [0], axis=1)}

    module = tf.Module()
    module.call = tf.function(call, input_signature=[tf.TensorSpec([None, 8, 8, 2], name="x")], autograph=False)
    tf.saved_model.save(module, str(path))


def _example(path: Path) -> None:
    export_example(path)


_SEEDS: tuple[Callable[[Path], None], ...] = (_looping, _example, _with_vocabulary, _of_tensorflow_1, _convolutions)
