"""`tf.lite.experimental`'s names, as far as they have a meaning here."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from jfuse.api.check import check
from jfuse.api.load import load


class OpResolverType(Enum):
    """Which kernels LiteRT takes; `Interpreter` runs on XLA and takes any of these, which changes nothing."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


class Analyzer:
    """Prints the content of a file, as tf.lite.experimental.Analyzer does."""

    @staticmethod
    def analyze(
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        gpu_compatibility: bool = False,
        **unused: object,
    ) -> None:
        """Print the graphs of a .tflite file, given as its path or its bytes, operator by operator.

        gpu_compatibility: also print whether LiteRT's GPU delegate takes it. unused: keywords that the official one
        takes, too; they change nothing.
        Raises ValueError where nothing is given, as the official one does.
        """
        if not model_path and not model_content:
            raise ValueError("neither `model_path` nor `model_content` is provided")
        model = load(Path(model_path) if model_path else model_content)
        print(f"=== {model_path or 'TFLite ModelAnalyzer'} ===\n\n{model}")
        if gpu_compatibility:
            print(check(model, "litert-gpu"))
