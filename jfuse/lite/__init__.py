"""`tf.lite`'s names, so that a script changes one import: `from jfuse import lite`, then `lite.TFLiteConverter`."""

from ai_edge_litert.interpreter import load_delegate

from jfuse.lite import experimental
from jfuse.lite.converter import TFLiteConverter
from jfuse.lite.errors import ConverterError
from jfuse.lite.interpreter import Interpreter, SignatureRunner
from jfuse.lite.spec import OpsSet, Optimize, RepresentativeDataset, TargetSpec

__all__ = [
    "ConverterError",
    "Interpreter",
    "OpsSet",
    "Optimize",
    "RepresentativeDataset",
    "SignatureRunner",
    "TFLiteConverter",
    "TargetSpec",
    "experimental",
    "load_delegate",
]
