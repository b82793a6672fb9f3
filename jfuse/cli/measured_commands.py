"""The commands that measure, compare or list: `quantize-report`, `optimize`, `tune`, `bench`, `diff`, `passes`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from jfuse.base.limits import Limits
from jfuse.cli import options
from jfuse.cli.flags import objects
from jfuse.cli.frame import app, work
from jfuse.cli.options import one_of
from jfuse.frontends.selection import Inputs
from jfuse.passes.options import Forms, Pipeline, QuantizationOptions, data_words


@app.command(short_help="Find where a quantized file loses precision.")
@objects
def quantize_report(
    model: options.File,
    against: options.InFloats,
    data: options.RealData = "random",
    by: options.By = "own",
    most: options.Most = 20,
    explorer: options.Explorer = None,
    unsafe: options.Unsafe = False,
    *,
    reports: options.Reports,
    terminal: options.Terminal,
) -> None:
    """Measure the noise of each operator of FILE, a quantized .tflite file, against the float model, worst first."""
    one_of("by", by, ("own", "propagated", "graph"))
    options.need_file(model)
    options.need_words("data", data_words, data)
    with work(terminal):
        from jfuse.cli import measuring

        files = measuring.NoiseFiles(reports.json, reports.html, explorer)
        order: Any = by  # a word that one_of checked
        measuring.noise_report(model, against, data, files, order, most=most, unsafe=unsafe)


@app.command(short_help="Make a .tflite file smaller and faster.")
@objects
def optimize(
    model: options.File,
    output: options.Output,
    slower: options.Slower = 1.0,
    verify: options.Compare = True,
    *,
    forms: options.TargetAlone,
    reports: options.Json,
    terminal: options.Terminal,
) -> None:
    """Write FILE with loops fused and unrolled steps joined, never larger or slower than it; else as it is, and why."""
    options.need_file(model)
    with work(terminal):
        from jfuse.cli import measuring

        measuring.optimize(model, output, reports.json, target=forms.target, slower=slower, verify=verify)


@app.command(short_help="Convert a model; time the forms of each recurrence, and take the fastest.")
@objects
def tune(
    source: options.Source,
    output: options.Output,
    candidates: options.Candidates = None,
    timings: options.Timings = None,
    device: options.Device = None,
    verify: options.Compare = True,
    *,
    inputs: Inputs,
    forms: Forms,
    pipeline: Pipeline,
    reports: options.Json,
    terminal: options.Terminal,
) -> None:
    """Time the forms of each recurrence in SOURCE (fused, straight code, WHILE) and write the file with the fastest.

    With --device they are timed there. With --candidates the files of all forms are written, too; with --timings their
    times come from what was measured of these.
    """
    options.check_modules(inputs.modules)
    with work(terminal):
        from jfuse.cli import measuring, user_code

        measuring.tune(
            source,
            output,
            reports.json,
            user_code.added(pipeline, inputs.modules, None),
            inputs=inputs,
            forms=forms,
            candidates=candidates,
            timings=timings or (),
            device=device,
            verify=verify,
        )


@app.command(short_help="Measure time, memory and error beside the official converter and XLA.")
@objects
def bench(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="One or more sources, as `convert` takes them.")
    ],
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One more .tflite file with the same inputs.", exists=True)
    ] = None,
    threads: Annotated[
        list[int] | None, typer.Option(min=1, help="Threads of LiteRT; several times for several. [default: 1, 2, 4]")
    ] = None,
    device: options.Device = None,
    seconds: Annotated[
        float, typer.Option(min=0.01, help="Seconds of calls for each file and number of threads.")
    ] = 0.5,
    profile: Annotated[bool, typer.Option(help="Also time each operator alone.")] = True,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page's charts as a picture, by matplotlib (jfuse[bench]).")
    ] = None,
    *,
    inputs: Inputs,
    quantization: QuantizationOptions,
    limits: Annotated[Limits, ("conversion_seconds",)],
    reports: options.Reports,
    terminal: options.Terminal,
) -> None:
    """Convert MODEL in each form of its recurrences and by the official converter; measure the files and XLA.

    A row for each: seconds and peak memory of the conversion, bytes, operators, latency, error against the source.

    Example: jfuse bench saved_model/ --batch 1 --html bench.html
    """
    options.check_modules(inputs.modules)
    with work(terminal):
        from jfuse.cli import measuring, user_code

        user_code.run(inputs.modules, None)
        measuring.bench(
            models,
            reports,
            png,
            inputs=inputs,
            against=against,
            quantize=quantization.recipe,
            calibration=quantization.calibration,
            threads=tuple(threads or (1, 2, 4)),
            device=device,
            seconds=seconds,
            limits=limits,
            profile=profile,
        )


@app.command(short_help="List the differences of two models, without running them.")
@objects
def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="A model, or a text that `inspect` printed (.txt).")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    unsafe: options.Unsafe = False,
    *,
    reports: options.Json,
    terminal: options.Terminal,
) -> None:
    """Compare A and B as programs: signatures, operators, types, options, constants, quantization, metadata.

    Exit code 0 where they are equal, 1 where they differ, 2 where one cannot be read.

    Example: jfuse diff before.tflite after.tflite --json diff.json
    """
    with work(terminal, refused=2):
        from jfuse.cli import measuring

        equal = measuring.diff(a, b, reports.json, unsafe=unsafe)
    if not equal:
        raise typer.Exit(1)


@app.command(short_help="List the passes of a conversion, your own included.")
@objects
def passes(
    *,
    inputs: options.Modules,
    rules: options.Rules = None,
    reports: options.Json,
    terminal: options.Terminal,
) -> None:
    """List the passes in their order: input, promise, reason of the position, and origin."""
    options.check_modules(inputs.modules)
    with work(terminal):
        from jfuse.cli import rules as listing

        listing.tell_passes(inputs.modules, rules, reports.json)
