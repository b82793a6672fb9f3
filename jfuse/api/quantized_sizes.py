"""Effects of quantization on file size: choose another form for loops that grew, and warn."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Const, Eqn, Program
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.control import while_
from jfuse.lowering.spellings import spellings_of
from jfuse.model import Model
from jfuse.passes.options import Forms, LoweringOptions
from jfuse.quantization.recipe import QuantizeRule
from jfuse.quantization.statistics import is_earlier
from jfuse.tflite.targets.catalog import target_named

_LOGGER = logging.getLogger(__name__)
_SHOWN = 3  # kinds of operators in a warning
_LITTLE = 0.99  # of the bytes, left by a recipe that is there to make files smaller


def source_bytes(source: Any) -> int:
    """The size of a source that is a .tflite file; 0 of others."""
    is_file = isinstance(source, str | Path) and Path(source).suffix == ".tflite" and Path(source).is_file()
    return Path(source).stat().st_size if is_file else 0


def kept_small(made: Model, options: LoweringOptions, again: Callable[[LoweringOptions], Model]) -> Model:
    """A quantized model, in another form where its loops make it larger than in floats, with warnings of its size.

    Logs each warning of its report once. again: converts with other options. A form that was asked for by name stays.
    So does the first form where the calibration data are earlier statistics, as no data are there to run another.
    Raises LowerError where strict=True and the recipe made nothing smaller.
    """
    before = _float_bytes(made, options)
    is_open = _leaves_forms_open(options.forms) and not is_earlier(options.quantization.calibration)
    if made.size_bytes > before and is_open:
        made = _smallest(made, before, options, again)
    _warn(made, before, options)
    for text in made.report.warnings:
        _LOGGER.warning("%s", text)
    return made


def _smallest(made: Model, before: int, options: LoweringOptions, again: Callable[[LoweringOptions], Model]) -> Model:
    """The first form that is no larger than the float file, else the smallest, with its cost."""
    best, in_floats = made, False
    for changed in _smaller_forms(made, options):
        other = again(changed)
        # What a loop gives may not be of the type that is asked for.
        if other.size_bytes < best.size_bytes and _ends(other.program) == _ends(made.program):
            best, in_floats = other, changed.quantization.recipe != options.quantization.recipe
        if best.size_bytes <= before:
            break
    if best is made:
        return made
    best.statistics = made.statistics
    in_loops = 'loop="while"' if options.forms.prefer == "size" else 'prefer="speed"'
    by_name = in_loops if "while" in made.report.operators else 'loop="unroll"'
    size = f"the file would have {made.size_bytes:,} bytes, {before:,} in floats; {by_name} takes that"
    if in_floats:
        best.report.warn(f"recurrences compute in floats, with weights in 8 bits: in integers {size}")
    else:
        best.report.notes.append(f"recurrences have a smaller form than the fastest, with which {size}")
    return best


def _float_bytes(made: Model, options: LoweringOptions) -> int:
    """The size in floats: of the source if it is a file, else of the result without the recipe.

    Where the constants alone are larger than the quantized file, theirs, so that large models are not written twice.
    """
    assert made.unquantized is not None, "of a quantized model"
    if options.quantization.source_bytes:
        return options.quantization.source_bytes
    constants = _bytes_of_constants(made.unquantized.program)
    return constants if constants > made.size_bytes else made.unquantized.size_bytes


def _bytes_of_constants(program: Program) -> int:
    consts = {id(a): a for eqn in _eqns(program) for a in eqn.inputs if isinstance(a, Const)}
    return sum({c.memory: c.stored.nbytes for c in consts.values()}.values())


def _eqns(program: Program) -> Iterator[Eqn]:
    return (eqn for graph in program.graphs() for eqn in all_eqns(graph))


def _ends(program: Program) -> list[DType]:
    """The element types of the signatures' inputs and outputs."""
    return [atom.type.dtype for s in program.signatures for atom in (*s.graph.inputs, *s.graph.outputs)]


def _leaves_forms_open(asked: Forms) -> bool:
    is_named = (asked.loop, dict(asked.by_source)) != (Forms.loop, {})
    return not is_named and asked.prefer in (Forms.prefer, "size")


def _smaller_forms(made: Model, options: LoweringOptions) -> Iterator[LoweringOptions]:
    """Loops with fewer operators; then recurrences that stay float beside integers, with weights in few bits."""
    recipe = options.quantization.recipe
    assert recipe is not None, "of a quantized model"
    assert made.unquantized is not None, "of a quantized model"
    ours, theirs = ({eqn.op for eqn in _eqns(p)} for p in (made.program, made.unquantized.program))
    spelled = {op for op in theirs - ours if spellings_of(op, "loop")}
    named = {rule.op for rule in recipe.rules}
    nodes = {eqn.source.node for eqn in _eqns(made.unquantized.program) if eqn.op is while_}
    nodes |= {loop.source.split(" (")[0] for loop in made.report.loops}
    if not nodes and not spelled:
        return
    small = replace(options, forms=replace(options.forms, prefer="size"))
    yield small
    target = target_named(options.forms.target)
    if recipe.needs_ranges and not recipe.int8_only and target.has_xnnpack and target.accelerator is None:
        builtins = sorted({str(op.builtin) for op in spelled} - named)
        fused = [QuantizeRule("dynamic", op=builtin, min_elements=0) for builtin in builtins]
        steps = [QuantizeRule("dynamic", f"^{re.escape(node)}", min_elements=0) for node in sorted(nodes - {""})]
        beside = replace(recipe, rules=(*recipe.rules, *fused, *steps))
        yield replace(small, quantization=replace(options.quantization, recipe=beside))


def _warn(made: Model, before: int, options: LoweringOptions) -> None:
    """Warn of a recipe that made nothing smaller, or a file that is larger; the former is an error with strict=True."""
    recipe, after = options.quantization.recipe, made.size_bytes
    assert recipe is not None, "of a quantized model"
    is_idle = all(q.form == "float" for q in made.report.quantized)
    if not is_idle and after <= before * (1 if recipe.needs_ranges else _LITTLE):
        return
    did = "quantized nothing" if is_idle else f"made the file {'hardly' if after < before else 'no'} smaller"
    text = f"the recipe {recipe.name!r} {did}: {after:,} bytes, {before:,} in floats"
    reasons = [str(q) for q in made.report.quantized if q.form == "float"]
    text += "".join(f"; {reason}" for reason in reasons[:_SHOWN])
    text += f"; and {len(reasons) - _SHOWN} more kinds of operators" if len(reasons) > _SHOWN else ""
    if options.forms.strict and (is_idle or (after >= before and not recipe.needs_ranges)):
        raise LowerError(
            f"the recipe {recipe.name!r} {did}",
            expected="strict=True: a smaller file",
            found=text,
            remedy="another recipe, or one of your own, whose rules say min_elements=; strict=False writes it",
        )
    made.report.warn(text)
