"""jfuse: models of TensorFlow, Keras, JAX and PyTorch to fused, verified TensorFlow Lite files.

>>> import jfuse
>>> result = jfuse.convert("saved_model/")          # doctest: +SKIP
>>> result.save("model.tflite")                     # doctest: +SKIP

The names below are imported at their first use: `import jfuse` itself, and the command line's help, cost nothing.
"""

from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from jfuse.notebooks import Shown

if TYPE_CHECKING:
    from jfuse.benchmark.comparison import bench
    from jfuse.checked_file import check
    from jfuse.compared_sides import verify
    from jfuse.converted_model import convert
    from jfuse.differences.model_diff import diff
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
    from jfuse.limits import Limits
    from jfuse.lite.converter import TFLiteConverter
    from jfuse.lite.interpreter import Interpreter
    from jfuse.loading import load, parse
    from jfuse.lowered_model import lower
    from jfuse.lowering.installed import installed_rules
    from jfuse.lowering.peephole import pattern
    from jfuse.lowering.peephole.registry import Match
    from jfuse.lowering.rule_tools.query import is_constant
    from jfuse.lowering.rules import Proposal, fuses, lowers, lowers_jax, lowers_torch, need, recovers
    from jfuse.model import Model
    from jfuse.noise.report import QuantizeReport
    from jfuse.passes.installed import installed_passes
    from jfuse.passes.own import Pass, rewrites
    from jfuse.programs.cost import OperatorCost, ProgramCost
    from jfuse.programs.cuts import extract, merge
    from jfuse.quantization.recipe import QuantizeRule, Recipe
    from jfuse.quantized_file import quantize, quantize_report
    from jfuse.report import Report
    from jfuse.tflite.model_metadata import Metadata, TensorMetadata
    from jfuse.tuning.optimized_file import optimize
    from jfuse.tuning.tuned_forms import tune
    from jfuse.verification.result import Verification

__version__ = "0.1.0"

__all__ = [
    "BadFlatbuffer",
    "ImportFailed",
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
    "Verification",
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
    "jfuse.checked_file": ("check",),
    "jfuse.compared_sides": ("verify",),
    "jfuse.converted_model": ("convert",),
    "jfuse.lowered_model": ("lower",),
    "jfuse.benchmark.comparison": ("bench",),
    "jfuse.differences.model_diff": ("diff",),
    "jfuse.errors": (
        "BadFlatbuffer",
        "ImportFailed",
        "InternalError",
        "JfuseError",
        "LowerError",
        "RuleError",
        "TypeMismatch",
        "VerifyFailed",
    ),
    "jfuse.kernels.ops": ("ops",),
    "jfuse.lite.converter": ("TFLiteConverter",),
    "jfuse.lite.interpreter": ("Interpreter",),
    "jfuse.limits": ("Limits",),
    "jfuse.loading": ("load", "parse"),
    "jfuse.lowering.installed": ("installed_rules",),
    "jfuse.lowering.rule_tools.query": ("is_constant",),
    "jfuse.lowering.rules": ("Proposal", "fuses", "lowers", "lowers_jax", "lowers_torch", "need", "recovers"),
    "jfuse.lowering.peephole.pattern": ("pattern",),
    "jfuse.lowering.peephole.registry": ("Match",),
    "jfuse.model": ("Model",),
    "jfuse.noise.report": ("QuantizeReport",),
    "jfuse.passes.installed": ("installed_passes",),
    "jfuse.passes.own": ("Pass", "rewrites"),
    "jfuse.programs.cost": ("OperatorCost", "ProgramCost"),
    "jfuse.programs.cuts": ("extract", "merge"),
    "jfuse.quantized_file": ("quantize", "quantize_report"),
    "jfuse.quantization.recipe": ("QuantizeRule", "Recipe"),
    "jfuse.report": ("Report",),
    "jfuse.tflite.model_metadata": ("Metadata", "TensorMetadata"),
    "jfuse.tuning.optimized_file": ("optimize",),
    "jfuse.tuning.tuned_forms": ("tune",),
    "jfuse.verification.result": ("Verification",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, or a module of the package as `jfuse.ir`. The first of them that is no error imports it all.

    All of it, because rules and ops are registered as their modules are imported, and a user's rule comes after ours.
    """
    home = _HOME.get(name)
    if home is None and (name.startswith("_") or find_spec(f"jfuse.{name}") is None):
        raise AttributeError(f"module 'jfuse' has no attribute {name!r}")
    if home != "jfuse.errors":
        import_module("jfuse.converted_model")
    module = import_module(home or f"jfuse.{name}")
    value = module if home is None or home.endswith(f".{name}") else getattr(module, name)
    globals()[name] = value
    return value


Shown.registered = partial(import_module, "jfuse.reports")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
