"""`tf.lite.experimental`'s names, as far as they have a meaning here."""

from __future__ import annotations

import os
from pathlib import Path

from ai_edge_litert.interpreter import OpResolverType, load_delegate

from jfuse.api.check import check
from jfuse.api.load import load
from jfuse.lite.debugger import QuantizationDebugger, QuantizationDebugOptions

__all__ = ["Analyzer", "OpResolverType", "QuantizationDebugOptions", "QuantizationDebugger", "load_delegate"]


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
