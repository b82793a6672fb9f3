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
from jfuse.cli.frame import LikeTfliteConvert, app, work
from jfuse.cli.options import need_target, one_of
from jfuse.passes.options import (
    COST_ORDERS,
    LOOPS,
    MACHINES,
    PADDINGS,
    PRECISIONS,
    PREFERENCES,
    REQUIREMENTS,
    STATES,
    LoweringOptions,
    RecurrenceOptions,
)
from jfuse.tflite.targets.names import DEFAULT, RUNTIMES
from jfuse.verification.options import EDGES, SamplingOptions

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


@app.command(short_help="Convert a model, test what was fused, write the file.", cls=LikeTfliteConvert)
def convert(
    source: options.Source,
    output: options.Output,
    signature: options.Signatures = None,
    shape: options.Shapes = None,
    batch: options.Batch = None,
    inputs: options.InputTensors = None,
    outputs: options.OutputTensors = None,
    import_: options.Imports = None,
    rules: options.Rules = None,
    state: options.State = RecurrenceOptions.state,
    padding: options.Padding = None,
    loop: options.Loop = RecurrenceOptions.loop,
    prefer: options.Prefer = RecurrenceOptions.prefer,
    machine: options.Machine = RecurrenceOptions.machine,
    require: options.Require = None,
    target: options.Target = DEFAULT,
    precision: options.Precision = LoweringOptions.precision,
    strict: options.Strict = False,
    select_tf_ops: options.SelectTfOps = False,
    custom_op: options.CustomOps = None,
    verify: options.Verify = True,
    samples: options.Samples = None,
    tolerance: options.Tolerance = None,
    dump_dir: options.DumpDir = None,
    quantize: options.Quantize = None,
    calibration: options.Calibration = None,
    c_array: options.CArray = None,
    metadata: options.Metadata = None,
    labels: options.Labels = None,
    json: options.Json = None,
    html: options.Html = None,
    unsafe: options.Unsafe = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Convert SOURCE, test what was fused, compare the file with TensorFlow, and write it."""
    one_of("state", state, STATES)
    one_of("loop", loop, LOOPS)
    one_of("prefer", prefer, PREFERENCES)
    one_of("machine", machine, MACHINES)
    one_of("require", require, REQUIREMENTS)
    one_of("padding", padding, PADDINGS)
    one_of("precision", precision, PRECISIONS)
    need_target(target)
    options.need_cpp(c_array)
    options.need_recipe("quantize", quantize, calibration)
    selected = options.selected(signature, shape, batch, inputs, outputs)
    options.check_modules(import_)
    if samples is not None and not verify:
        raise typer.BadParameter("is for the comparison: without --no-verify", param_hint="--samples")
    about = (metadata, options.labels_of(labels))
    with work(verbose, quiet):
        from jfuse.cli import conversion, user_code

        conversion.convert(
            source,
            output,
            conversion.Reports(json, html, c_array),
            conversion.Compared(verify, samples, tolerance),
            conversion.About.of(*about),
            **selected,
            **user_code.run(import_, rules),
            state=state,
            padding=padding,
            loop=loop,
            prefer=prefer,
            machine=machine,
            require=require,
            target=target,
            precision=precision,
            strict=strict,
            select_tf_ops=select_tf_ops,
            custom_ops=dict.fromkeys(custom_op or ()),
            unsafe=unsafe,
            dump_dir=dump_dir,
            quantize=quantize,
            calibration=calibration,
        )


@app.command(short_help="Write a float model in fewer bits.")
def quantize(
    source: options.Source,
    output: options.Output,
    recipe: options.Recipe,
    calibration: options.Calibration = None,
    labels_key: options.LabelsKey = None,
    shape: options.Shapes = None,
    batch: options.Batch = None,
    import_: options.Imports = None,
    snr: options.Snr = None,
    device: options.Elsewhere = None,
    target: options.Target = DEFAULT,
    loop: options.Loop = RecurrenceOptions.loop,
    prefer: options.Prefer = RecurrenceOptions.prefer,
    strict: options.Strict = False,
    json: options.Json = None,
    unsafe: options.Unsafe = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Quantize SOURCE, a float .tflite file or any source of `convert`, by a recipe."""
    need_target(target)
    one_of("loop", loop, LOOPS)
    one_of("prefer", prefer, PREFERENCES)
    options.need_recipe("recipe", recipe, calibration)
    if snr is not None and target != DEFAULT:
        raise typer.BadParameter("is measured in LiteRT: without --target", param_hint="--snr")
    shapes = options.shapes_of(shape)
    options.check_modules(import_)
    with work(verbose, quiet):
        from jfuse.cli import conversion, user_code

        wanted = target if snr is None else {"snr_db": snr}
        conversion.quantize(
            source,
            output,
            json,
            recipe,
            conversion.without_labels(calibration, labels_key),
            passes=user_code.run(import_, None)["passes"],
            shapes=shapes,
            batch=batch,
            target=wanted,
            device=device,
            loop=loop,
            prefer=prefer,
            strict=strict,
            unsafe=unsafe,
        )


@app.command(short_help="Compare two models.")
def verify(
    model: options.Compared,
    against: options.Against = None,
    signature: options.Signatures = None,
    samples: options.Count = SamplingOptions.samples,
    calls: options.Calls = SamplingOptions.calls,
    seed: options.Seed = SamplingOptions.seed,
    inputs: options.Inputs = None,
    size: options.Size = None,
    tolerance: options.Tolerance = None,
    edges: options.Edges = SamplingOptions.edges,
    empty: options.Empty = False,
    device: options.Device = None,
    json: options.Json = None,
    html: options.Html = None,
    save_failing: options.SaveFailing = Path(),
    limit: options.Limit = None,
    runtime: options.Runtimes = None,
    import_: options.Imports = None,
    unsafe: options.Unsafe = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Compare MODEL with its reference: exit code 0 if they agree, 1 if they differ."""
    one_of("edges", edges, EDGES)
    for name in runtime or ():
        one_of("runtime", name, RUNTIMES)
    sizes = options.sizes_of(size)
    options.check_modules(import_)
    with work(verbose, quiet):
        from jfuse.cli import user_code, verification

        user_code.run(import_, None)
        verification.verify(
            model,
            against,
            json,
            html,
            signatures=signature,
            samples=samples,
            calls=calls,
            seed=seed,
            inputs=inputs,
            sizes=sizes,
            tolerance=tolerance,
            edges=edges,
            empty=empty,
            device=device,
            save_failing=save_failing,
            limits=Limits(seconds=limit),
            runtimes=runtime or (),
            unsafe=unsafe,
        )


@app.command(short_help="Say what a target makes of a file.")
def check(
    model: options.File,
    target: options.CheckedTarget = None,
    device: options.Elsewhere = None,
    json: options.Json = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Check FILE against a target: operators, versions, types, CPU fallbacks, losses, memory.

    Without --target: which targets take it. Exit code 1 where a target that is named, or every one, or the device does
    not.
    """
    if target is not None:
        need_target(target)
    with work(verbose, quiet):
        from jfuse.cli import target_check

        takes_it = target_check.tell(model, target, device, json)
    if not takes_it:
        raise typer.Exit(1)


@app.command(short_help="Print the text form of a model.")
def inspect(
    source: options.Source,
    signature: options.Signatures = None,
    shape: options.Shapes = None,
    batch: options.Batch = None,
    inputs: options.InputTensors = None,
    outputs: options.OutputTensors = None,
    stage: options.Stage = None,
    table: options.Table = False,
    by: options.CostBy = "type",
    sort: options.CostSort = "macs",
    measure: options.Measure = False,
    json: options.Json = None,
    html: options.Page = None,
    import_: options.Imports = None,
    unsafe: options.Unsafe = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Print the text form of SOURCE, as imported or after a pass; or tables of the cost of its operators."""
    one_of("by", by, ("operator", "type", "layer"))
    one_of("sort", sort, COST_ORDERS)
    selected = options.selected(signature, shape, batch, inputs, outputs)
    options.check_modules(import_)
    with work(verbose, quiet):
        from jfuse.cli import conversion, user_code

        user_code.run(import_, None)
        # Typer gives plain texts, which one_of has checked.
        costs = conversion.CostTable(by, sort, measure, json) if table or json is not None else None  # type: ignore[arg-type]
        conversion.inspect(source, stage, costs, html, **selected, unsafe=unsafe)


@app.command(short_help="Say what each recurrence becomes, or why it does not fuse.")
def explain(
    source: options.Source,
    signature: options.Signatures = None,
    shape: options.Shapes = None,
    batch: options.Batch = None,
    inputs: options.InputTensors = None,
    outputs: options.OutputTensors = None,
    import_: options.Imports = None,
    rules: options.Rules = None,
    padding: options.Padding = None,
    json: options.Json = None,
    unsafe: options.Unsafe = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Explain each recurrence in SOURCE: its kind, test and result, or why it does not fuse."""
    one_of("padding", padding, PADDINGS)
    selected = options.selected(signature, shape, batch, inputs, outputs)
    options.check_modules(import_)
    with work(verbose, quiet):
        from jfuse.cli import conversion, user_code

        conversion.explain(source, json, **selected, **user_code.run(import_, rules), padding=padding, unsafe=unsafe)


@app.command(short_help="Say what jfuse knows of an op.")
def ops(
    name: Annotated[str | None, typer.Argument(help="An op of TensorFlow or a builtin of TFLite.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print all ops as tables in Markdown.")] = False,
    json: options.Json = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Describe an op: its rule, its builtins and types, or the remedies if it has no rule."""
    with work(verbose, quiet):
        from jfuse.cli import coverage

        known = coverage.markdown() if markdown else coverage.tell(name, json)
    if not known:
        raise typer.Exit(1)


@app.command(short_help="List the rules for composites and loops, installed ones too.")
def rules(
    import_: options.Imports = None,
    rules: options.Rules = None,
    json: options.Json = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """List which marked functions and loops fuse by a rule, and where the rule comes from: jfuse, a package, a file."""
    options.check_modules(import_)
    with work(verbose, quiet):
        from jfuse.cli import rules as listing

        listing.tell(import_, rules, json)


@app.command(short_help="Convert a small LSTM, and time the file.")
def demo(
    folder: Annotated[Path, typer.Option(help="Where to put the SavedModel and the file.")] = Path("jfuse-demo"),
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Make a small Keras 3 LSTM classifier, save it with model.export, convert that, and time the file."""
    with work(verbose, quiet):
        from jfuse.cli import demonstration

        demonstration.demo(folder)
