"""The bytes that jfuse writes for every model of bench/models.py and every row of the recurrent matrix, as digests.

    python -m bench.digests [SUBSTRING ...] > before.txt

A change that should leave the files as they are prints the same lines before and after. Conversions are not verified.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import jfuse
from bench.models import MODELS
from tests.models.recurrences.recurrent import ROWS


def sources(folder: Path) -> Iterator[tuple[str, Callable[[], Any], dict[str, Any]]]:
    """The name of each model, what builds its source, and the options of its conversion."""
    for name, build in MODELS.items():
        yield f"models/{name}", lambda build=build: build()[0], {}
    for number, row in enumerate(ROWS):
        place = folder / str(number)
        place.mkdir()
        yield f"recurrent/{row.name}", lambda row=row, place=place: row.build(place), dict(row.options)


def digest(build: Callable[[], Any], options: dict[str, Any]) -> str:
    """The size and the SHA-256 of the file of one model, whose weights are drawn from a fixed seed."""
    random.seed(0)
    np.random.seed(0)
    tf.keras.utils.set_random_seed(0)
    keras.utils.set_random_seed(0)
    keras.backend.clear_session()
    data = jfuse.convert(build(), verify=False, **options).to_bytes()
    return f"{len(data)} {hashlib.sha256(data).hexdigest()}"


def main(parts: list[str]) -> None:
    """Print one line for each model whose name contains one of the parts."""
    with tempfile.TemporaryDirectory() as folder:
        for name, build, options in sources(Path(folder)):
            if not parts or any(part in name for part in parts):
                try:
                    print(name, digest(build, options), flush=True)
                except Exception as error:  # the name of a refusal is a result, too
                    print(name, type(error).__name__, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
