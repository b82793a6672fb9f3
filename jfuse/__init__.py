"""jfuse: models of TensorFlow, Keras, JAX and PyTorch to fused, verified TensorFlow Lite files.

>>> import jfuse
>>> result = jfuse.convert("saved_model/")          # doctest: +SKIP
>>> result.save("model.tflite")                     # doctest: +SKIP

The names below are imported at their first use: `import jfuse` itself, and the command line's help, cost nothing.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from jfuse.base.notebooks import NotebookView

if TYPE_CHECKING:
    from jfuse import ir as ir
    from jfuse import lite as lite
    from jfuse import reports as reports
    from jfuse.api.check import check
    from jfuse.api.convert import convert
    from jfuse.api.diff import diff
    from jfuse.api.load import load, parse
    from jfuse.api.lower import lower
    from jfuse.api.optimize import optimize
    from jfuse.api.parts import extract, merge
    from jfuse.api.quantize import quantize, quantize_report
    from jfuse.api.tune import tune
    from jfuse.api.verify import verify
    from jfuse.base.errors import (
        BadFlatbuffer,
        ImportFailed,
        InternalError,
        JfuseError,
        LowerError,
        RuleError,
        TypeMismatch,
        UnknownOption,
        VerifyFailed,
    )
    from jfuse.base.limits import Limits
    from jfuse.benchmark.comparison import bench
    from jfuse.frontends.selection import Inputs
    from jfuse.kernels import ops
    from jfuse.lite.converter import TFLiteConverter
    from jfuse.lite.interpreter import Interpreter
    from jfuse.lowering.installed import installed_rules
    from jfuse.lowering.peephole import pattern
    from jfuse.lowering.peephole.registry import Match
    from jfuse.lowering.rule_tools.query import is_constant
    from jfuse.lowering.rules import Proposal, fuses, lowers, lowers_jax, lowers_torch, need, recovers
    from jfuse.model import Model
    from jfuse.passes.installed import installed_passes
    from jfuse.passes.options import Forms, Pipeline
    from jfuse.passes.own import Pass, rewrites
    from jfuse.programs.cost import OperatorCost, ProgramCost
    from jfuse.quantization.recipe import QuantizeRule, Recipe
    from jfuse.records.conversion import Report
    from jfuse.records.verification import Verification
    from jfuse.tflite.model_metadata import Metadata, TensorMetadata
    from jfuse.verification.options import Verify
    from jfuse.verification.quantization_noise.report import QuantizeReport

__version__ = "0.1.0"

__all__ = [
    "BadFlatbuffer",
    "Forms",
    "ImportFailed",
    "Inputs",
    "InternalError",
    "Interpreter",
    "JfuseError",
    "Limits",
    "LowerError",
    "Match",
    "Metadata",
    "Model",
    "OperatorCost",
    "Pass",
    "Pipeline",
    "ProgramCost",
    "Proposal",
    "QuantizeReport",
    "QuantizeRule",
    "Recipe",
    "Report",
    "RuleError",
    "TFLiteConverter",
    "TensorMetadata",
    "TypeMismatch",
    "UnknownOption",
    "Verification",
    "Verify",
    "VerifyFailed",
    "__version__",
    "bench",
    "check",
    "convert",
    "diff",
    "extract",
    "fuses",
    "installed_passes",
    "installed_rules",
    "is_constant",
    "load",
    "lower",
    "lowers",
    "lowers_jax",
    "lowers_torch",
    "merge",
    "need",
    "ops",
    "optimize",
    "parse",
    "pattern",
    "quantize",
    "quantize_report",
    "recovers",
    "rewrites",
    "tune",
    "verify",
]

_HOMES = {
    "jfuse.api.check": ("check",),
    "jfuse.api.verify": ("verify",),
    "jfuse.api.convert": ("convert",),
    "jfuse.api.lower": ("lower",),
    "jfuse.benchmark.comparison": ("bench",),
    "jfuse.api.diff": ("diff",),
    "jfuse.base.errors": (
        "BadFlatbuffer",
        "ImportFailed",
        "InternalError",
        "JfuseError",
        "LowerError",
        "RuleError",
        "TypeMismatch",
        "UnknownOption",
        "VerifyFailed",
    ),
    "jfuse.frontends.selection": ("Inputs",),
    "jfuse.kernels.ops": ("ops",),
    "jfuse.lite.converter": ("TFLiteConverter",),
    "jfuse.lite.interpreter": ("Interpreter",),
    "jfuse.base.limits": ("Limits",),
    "jfuse.api.load": ("load", "parse"),
    "jfuse.lowering.installed": ("installed_rules",),
    "jfuse.lowering.rule_tools.query": ("is_constant",),
    "jfuse.lowering.rules": ("Proposal", "fuses", "lowers", "lowers_jax", "lowers_torch", "need", "recovers"),
    "jfuse.lowering.peephole.pattern": ("pattern",),
    "jfuse.lowering.peephole.registry": ("Match",),
    "jfuse.model": ("Model",),
    "jfuse.verification.quantization_noise.report": ("QuantizeReport",),
    "jfuse.passes.installed": ("installed_passes",),
    "jfuse.passes.options": ("Forms", "Pipeline"),
    "jfuse.passes.own": ("Pass", "rewrites"),
    "jfuse.verification.options": ("Verify",),
    "jfuse.programs.cost": ("OperatorCost", "ProgramCost"),
    "jfuse.api.parts": ("extract", "merge"),
    "jfuse.api.quantize": ("quantize", "quantize_report"),
    "jfuse.quantization.recipe": ("QuantizeRule", "Recipe"),
    "jfuse.records.conversion": ("Report",),
    "jfuse.tflite.model_metadata": ("Metadata", "TensorMetadata"),
    "jfuse.api.optimize": ("optimize",),
    "jfuse.api.tune": ("tune",),
    "jfuse.records.verification": ("Verification",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def _public(name: str) -> Any:
    """A public name, or a module of the package as `jfuse.ir`. The first of them that is no error imports it all.

    All of it, because rules and ops are registered as their modules are imported, and a user's rule comes after ours.
    """
    home = _HOME.get(name)
    if home is None and (name.startswith("_") or find_spec(f"jfuse.{name}") is None):
        raise AttributeError(f"module 'jfuse' has no attribute {name!r}")
    with _no_garbage_search():
        if home != "jfuse.base.errors":
            import_module("jfuse.api.convert")
        module = import_module(home or f"jfuse.{name}")
    value = getattr(module, name, module) if home else module  # `ops` and `pattern` are modules
    globals()[name] = value
    return value


@contextmanager
def _no_garbage_search() -> Iterator[None]:
    """Within the `with`, Python does not search for garbage: what imports make stays, and each search reads it all."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


if not TYPE_CHECKING:  # for type checkers, a name that is not there is a mistake
    __getattr__ = _public

NotebookView.registered = partial(import_module, "jfuse.reports")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
