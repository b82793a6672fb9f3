"""The commands: `jfuse convert`, `quantize`, `quantize-report`, `optimize`, `verify`, `check`, `inspect`, …

Exit codes: 0 done; 1 refused, differing or unreadable; 2 wrong usage of the command line.

A command imports its modules when it runs: help, the version and wrong options need no jax.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

import jfuse
from jfuse.base.limits import Limits
from jfuse.cli import interrupts, measured_commands, options
from jfuse.cli.flags import objects
from jfuse.cli.frame import LikeTfliteConvert, app, work
from jfuse.cli.options import one_of
from jfuse.frontends.selection import Inputs
from jfuse.passes.options import (
    COST_ORDERS,
    Forms,
    Pipeline,
    QuantizationOptions,
    data_words,
    recipe_words,
    target_words,
)
from jfuse.verification.options import Verify

__all__ = ["app", "main", "measured_commands"]  # the last is imported for the commands that it adds


def main() -> None:
    """Runs the command that `sys.argv` names, and ends the process with its exit code."""
    # TensorFlow reads this once, when it is imported. Its oneDNN kernels refuse softmax over more than 5 axes, and give
    # other shapes for no rows: no good reference.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    try:
        app()
    except SystemExit as ending:
        if isinstance(ending.code, int):
            _leave(interrupts.exit_code(ending.code))
        raise
    except OSError as error:  # of what is printed outside of a command's work: help, the version
        with suppress(OSError):
            sys.stderr.write(f"cannot read or write: {error}\n")
        _leave(1)


def _leave(code: int) -> None:
    """End the process as Python does, but for taking TensorFlow and jax apart, which takes half a second."""
    if not interrupts.came():  # what was interrupted while it was imported may crash when it is taken apart
        atexit._run_exitfuncs()
    with suppress(OSError):  # nobody reads them any more
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jfuse {jfuse.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Models of TensorFlow, Keras, JAX and PyTorch to fused, verified TensorFlow Lite files."""


@app.command(short_help="Convert a model to a .tflite file, and verify it.", cls=LikeTfliteConvert)
@objects
def convert(
    source: options.Source,
    output: options.Output,
    *,
    inputs: Inputs,
    forms: Forms,
    quantization: QuantizationOptions,
    compare: Annotated[Verify, ("inputs", "tolerance")],
    verify: options.Compare = True,
    pipeline: Pipeline,
    rules: options.Rules = None,
    also: options.FileOptions,
    reports: options.Reports,
    terminal: options.Terminal,
) -> None:
    """Convert SOURCE, test each fusion, compare the file with TensorFlow, and write it."""
    options.check_modules(inputs.modules)
    if compare.inputs is not None and not verify:
        raise typer.BadParameter("needs a comparison: without --no-verify", param_hint="--inputs")
    with work(terminal):
        from jfuse.cli import conversion, user_code

        conversion.convert(
            source,
            output,
            reports,
            conversion.About.of(also.metadata, also.labels or {}),
            compare if verify else None,
            also.c_array,
            inputs=inputs,
            forms=forms,
            pipeline=user_code.added(pipeline, inputs.modules, rules),
            quantize=quantization.recipe,
            calibration=quantization.calibration,
        )


@app.command(short_help="Quantize a float model.")
@objects
def quantize(
    source: options.Source,
    output: options.Output,
    recipe: options.Recipe,
    calibration: options.Calibration = None,
    labels_key: options.LabelsKey = None,
    snr: options.Snr = None,
    device: options.Device = None,
    *,
    inputs: Annotated[Inputs, ("signatures", "shapes", "batch", "modules", "unsafe")],
    forms: Forms,
    pipeline: Pipeline,
    reports: options.Json,
    terminal: options.Terminal,
) -> None:
    """Quantize SOURCE, a float .tflite file or any source of `convert`, by a recipe."""
    options.need_words("recipe", recipe_words, recipe)
    options.need_words("calibration", data_words, calibration)
    if snr is not None and forms.target != Forms.target:
        raise typer.BadParameter("is measured in LiteRT: without --target", param_hint="--snr")
    options.check_modules(inputs.modules)
    with work(terminal):
        from jfuse.cli import conversion, user_code

        conversion.quantize(
            source,
            output,
            reports.json,
            recipe,
            conversion.without_labels(calibration, labels_key),
            user_code.added(pipeline, inputs.modules, None),
            inputs=inputs,
            target=None if snr is None else {"snr_db": snr},
            device=device,
            forms=forms,
        )


@app.command(short_help="Compare the outputs of two models.")
@objects
def verify(
    model: options.Compared,
    against: options.Against = None,
    *,
    compare: Verify,
    inputs: Annotated[Inputs, ("modules", "unsafe")],
    limits: Limits,
    reports: options.Reports,
    terminal: options.Terminal,
) -> None:
    """Compare MODEL with its reference: exit code 0 if they agree, 1 if they differ."""
    options.check_modules(inputs.modules)
    with work(terminal):
        from jfuse.cli import user_code, verification

        user_code.run(inputs.modules, None)
        verification.verify(model, against, compare, reports, unsafe=inputs.unsafe, limits=limits)


@app.command(short_help="Check which targets take a file, and why not.")
@objects
def check(
    model: options.File,
    target: options.CheckedTarget = None,
    device: options.Device = None,
    *,
    reports: options.Json,
    terminal: options.Terminal,
) -> None:
    """Check FILE against a target: operators, versions, types, CPU fallbacks, losses, memory.

    Without --target: which targets take it. Exit code 1 where a target that is named, or every one, or the device does
    not.
    """
    options.need_words("target", target_words, target)
    with work(terminal):
        from jfuse.cli import measuring

        takes_it = measuring.check(model, target, device, reports.json)
    if not takes_it:
        raise typer.Exit(1)


@app.command(short_help="Print a model as text, or the cost of its operators.")
@objects
def inspect(
    source: options.Source,
    stage: options.Stage = None,
    table: options.Table = False,
    by: options.CostBy = "type",
    sort: options.CostSort = "macs",
    measure: options.Measure = False,
    *,
    inputs: Inputs,
    reports: options.Reports,
    terminal: options.Terminal,
) -> None:
    """Print the text form of SOURCE, as imported or after a pass; or tables of the cost of its operators."""
    one_of("by", by, ("operator", "type", "layer"))
    one_of("sort", sort, COST_ORDERS)
    options.check_modules(inputs.modules)
    with work(terminal):
        from jfuse.cli import conversion, user_code

        user_code.run(inputs.modules, None)
        costs = None
        if table or reports.json is not None:
            costs = conversion.CostTable(by, sort, measure, reports.json)  # type: ignore[arg-type]  # checked by one_of
        conversion.inspect(source, stage, costs, reports.html, inputs)


@app.command(short_help="Explain what each recurrence becomes, or why it does not fuse.")
@objects
def explain(
    source: options.Source,
    *,
    inputs: Inputs,
    forms: Forms,
    pipeline: Pipeline,
    rules: options.Rules = None,
    reports: options.Json,
    terminal: options.Terminal,
) -> None:
    """Explain each recurrence in SOURCE: its kind, test and result, or why it does not fuse."""
    options.check_modules(inputs.modules)
    with work(terminal):
        from jfuse.cli import conversion, user_code

        conversion.explain(source, reports.json, inputs, forms, user_code.added(pipeline, inputs.modules, rules))


@app.command(short_help="Describe an operator, or list all.")
@objects
def ops(
    name: Annotated[str | None, typer.Argument(help="An op of TensorFlow or a builtin of TFLite.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all ops as tables in Markdown.")] = False,
    *,
    reports: options.Json,
    terminal: options.Terminal,
) -> None:
    """Describe an op: its rule, its builtins and types, or the remedies if it has no rule."""
    with work(terminal):
        from jfuse.cli import coverage

        known = coverage.markdown() if markdown else coverage.tell(name, reports.json)
    if not known:
        raise typer.Exit(1)


@app.command(short_help="List the rules for composites and loops, installed ones included.")
@objects
def rules(
    *,
    inputs: options.Modules,
    rules: options.Rules = None,
    reports: options.Json,
    terminal: options.Terminal,
) -> None:
    """List which marked functions and loops fuse by a rule, and where the rule comes from: jfuse, a package, a file."""
    options.check_modules(inputs.modules)
    with work(terminal):
        from jfuse.cli import rules as listing

        listing.tell(inputs.modules, rules, reports.json)


@app.command(short_help="Convert a small LSTM, and time the file.")
@objects
def demo(
    folder: Annotated[Path, typer.Option(help="Where to put the SavedModel and the file.")] = Path("jfuse-demo"),
    *,
    terminal: options.Terminal,
) -> None:
    """Make a small Keras 3 LSTM classifier, save it with model.export, convert that, and time the file."""
    with work(terminal):
        from jfuse.cli import demonstration

        demonstration.demo(folder)
