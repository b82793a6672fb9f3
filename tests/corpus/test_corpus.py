"""Files of many makers and kinds: each loads, runs, and agrees with LiteRT running the whole of it."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from jfuse.base.measure import relative_error
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Signature
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.model import Model
from jfuse.running.partition import integers_of
from jfuse.tflite.read.file import load_tflite
from tests.corpus import converted, official_models, official_ops, quantized
from tests.corpus.file import File
from tests.corpus.whole_file import WholeFile
from tests.slow import slow_but

FILES = (*official_ops.FILES, *official_models.FILES, *quantized.FILES, *converted.FILES)

TOLERANCE = 1e-5  # f32 sums in another order, through a few layers or turns

_SIZE = 3  # of every open dimension
_WORDS = np.array([b"a", b"c", b"", b"what", b"b"], object)


def test_there_are_many_and_no_two_are_named_alike() -> None:
    assert len(FILES) >= 200
    assert len({file.name for file in FILES}) == len(FILES)


@pytest.mark.parametrize("files", [official_ops.FILES, quantized.FILES])
def test_files_are_the_same_in_every_run(files: tuple[File, ...]) -> None:
    assert files[1].make() == files[1].make()


_QUICK = {file.name for file in FILES[::2] if "tf_keras" not in file.name}
"""Every other file: of each kind some."""


@pytest.mark.parametrize("file", slow_but(lambda file: file.name in _QUICK, FILES), ids=str)
def test_agrees_with_litert(file: File) -> None:
    data = file.make()
    model = Model(load_tflite(data))
    stream, whole = model.stream(quick=True), WholeFile(data, delegates=_on_integer_bodies(model))
    rng = np.random.default_rng(zlib.crc32(file.name.encode()))
    for _ in range(2):
        for signature in model.program.signatures:
            inputs = dict(zip(signature.input_names, file.inputs or _drawn(signature, rng), strict=True))
            found = stream.run(inputs, signature.key)
            wanted = whole.run(signature.key, inputs, signature.output_names)
            assert found.keys() == wanted.keys()
            for name, array in wanted.items():
                _check(found[name], array)
    if file.hosted is not None:
        assert any(model.runner(s.key, quick=True).hosted for s in model.program.signatures) <= file.hosted


def _on_integer_bodies(model: Model) -> bool:
    """Whether quantized integers are computed as on LiteRT's default path; a callback has LiteRT's own kernels."""
    atoms = (a for g in model.program.graphs() for e in all_eqns(g) for a in (*e.inputs, *e.outputs) if a is not None)
    return any(is_quantized(a.type) for a in atoms) and integers_of(model.program.graphs()) is not None


def _check(found: np.ndarray, wanted: np.ndarray) -> None:
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind == "f":
        assert relative_error(found, wanted) <= TOLERANCE
    else:
        assert np.array_equal(found, wanted)


def _drawn(signature: Signature, rng: np.random.Generator) -> list[np.ndarray]:
    types = [var.type for var in signature.graph.inputs[: len(signature.input_names)]]
    return [_array(t.dtype, tuple(int(d) if is_known(d) else _SIZE for d in t.shape), rng) for t in types]


def _array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if dtype is DType.string:
        return np.asarray(rng.choice(_WORDS, shape))
    if dtype is DType.bool:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_float:
        return np.asarray(rng.normal(size=shape), dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    low, high = (limits.min, limits.max) if limits.bits <= 16 else (0, 4)  # wider ones are ids and sizes
    return np.asarray(rng.integers(low, high, shape, endpoint=True), dtype.numpy)
