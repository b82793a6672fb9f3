"""jfuse: TensorFlow functions to proven, fused TensorFlow Lite files.

>>> import jfuse
>>> result = jfuse.convert("saved_model/")          # doctest: +SKIP
>>> result.save("model.tflite")                     # doctest: +SKIP
"""

from jfuse.api import convert, lower, verify
from jfuse.errors import (
    BadFlatbuffer,
    ImportFailed,
    InternalError,
    JfuseError,
    LowerError,
    RuleError,
    TypeMismatch,
    VerifyFailed,
)
from jfuse.kernels import ops
from jfuse.loading import load, parse
from jfuse.lowering.rules import Proposal, fuses, lowers, need, recovers
from jfuse.model import Model
from jfuse.report import Report
from jfuse.verification.result import Verification

__version__ = "0.1.0"

__all__ = [
    "BadFlatbuffer",
    "ImportFailed",
    "InternalError",
    "JfuseError",
    "LowerError",
    "Model",
    "Proposal",
    "Report",
    "RuleError",
    "TypeMismatch",
    "Verification",
    "VerifyFailed",
    "__version__",
    "convert",
    "fuses",
    "load",
    "lower",
    "lowers",
    "need",
    "ops",
    "parse",
    "recovers",
    "verify",
]
