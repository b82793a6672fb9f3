"""The commands that measure, compare or list: `quantize-report`, `optimize`, `tune`, `bench`, `diff`, `passes`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jfuse.cli import options
from jfuse.cli.frame import app, work
from jfuse.cli.options import need_target, one_of
from jfuse.passes.options import LOOPS, PADDINGS, STATES, RecurrenceOptions
from jfuse.tflite.targets.names import DEFAULT


@app.command(short_help="Say where a quantized file loses precision.")
def quantize_report(
    model: options.File,
    against: options.InFloats,
    data: options.RealData = "random",
    by: options.By = "own",
    most: options.Most = 20,
    json: options.Json = None,
    html: options.Html = None,
    explorer: options.Explorer = None,
    unsafe: options.Unsafe = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure the noise of each operator of FILE, a quantized .tflite file, against the float model, worst first."""
    one_of("by", by, ("own", "propagated", "graph"))
    options.need_file(model)
    options.need_data("data", data)
    with work(verbose, quiet):
        from jfuse.cli import quantization_report

        files = quantization_report.Files(json, html, explorer)
        quantization_report.tell(model, against, data, files, by, most=most, unsafe=unsafe)  # type: ignore[arg-type]


@app.command(short_help="Write a .tflite file with fewer operators, fewer bytes and less time.")
def optimize(
    model: options.File,
    output: options.Output,
    target: options.Target = DEFAULT,
    slower: options.Slower = 1.0,
    verify: options.Verify = True,
    json: options.Json = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Write FILE with loops fused and unrolled steps joined, never larger or slower than it; else as it is, and why."""
    need_target(target)
    options.need_file(model)
    with work(verbose, quiet):
        from jfuse.cli import improvement

        improvement.optimize(model, output, json, target=target, slower=slower, verify=verify)


@app.command(short_help="Convert a model with each recurrence in the form that is measured to be fastest.")
def tune(
    source: options.Source,
    output: options.Output,
    signature: options.Signatures = None,
    shape: options.Shapes = None,
    batch: options.Batch = None,
    state: options.State = RecurrenceOptions.state,
    padding: options.Padding = None,
    loop: options.Loop = RecurrenceOptions.loop,
    import_: options.Imports = None,
    target: options.Target = DEFAULT,
    candidates: options.Candidates = None,
    timings: options.Timings = None,
    device: options.Elsewhere = None,
    verify: options.Verify = True,
    json: options.Json = None,
    unsafe: options.Unsafe = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Time the forms of each recurrence in SOURCE (fused, straight code, WHILE) and write the file with the fastest.

    With --device they are timed there. With --candidates the files of all forms are written, too; with --timings their
    times come from what was measured of these.
    """
    one_of("state", state, STATES)
    one_of("padding", padding, PADDINGS)
    one_of("loop", loop, LOOPS)
    need_target(target)
    options.check_modules(import_)
    with work(verbose, quiet):
        from jfuse.cli import improvement, user_code

        user_code.run(import_, None)
        improvement.tune(
            source,
            output,
            json,
            signatures=signature,
            shapes=options.shapes_of(shape),
            batch=batch,
            state=state,
            padding=padding,
            loop=loop,
            target=target,
            candidates=candidates,
            timings=timings or (),
            device=device,
            verify=verify,
            unsafe=unsafe,
        )


@app.command(short_help="Measure a model as jfuse, the official converter and XLA have it.")
def bench(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="What `convert` takes; several are measured.")
    ],
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One more .tflite file with the same inputs.", exists=True)
    ] = None,
    signature: options.Signatures = None,
    shape: options.Shapes = None,
    batch: options.Batch = None,
    quantize: options.Quantize = None,
    calibration: options.Calibration = None,
    threads: Annotated[
        list[int] | None, typer.Option(min=1, help="Threads of LiteRT; several times for several. [default: 1, 2, 4]")
    ] = None,
    device: options.Elsewhere = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="Of calls for each file and number of threads.")] = 0.5,
    limit: Annotated[float, typer.Option(min=1, help="Seconds that one conversion may take.")] = 900,
    profile: Annotated[bool, typer.Option(help="Also time each operator alone.")] = True,
    json: options.Json = None,
    html: options.Html = None,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page's charts as a picture, by matplotlib (jfuse[bench]).")
    ] = None,
    import_: options.Imports = None,
    unsafe: options.Unsafe = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Convert MODEL in each form of its recurrences and by the official converter; measure the files and XLA.

    A row for each: seconds and peak memory of the conversion, bytes, operators, latency, error against the source.

    Example: jfuse bench saved_model/ --batch 1 --html bench.html
    """
    sizes = options.shapes_of(shape)
    options.need_recipe("quantize", quantize, calibration)
    options.check_modules(import_)
    with work(verbose, quiet):
        from jfuse.cli import measuring, user_code

        user_code.run(import_, None)
        measuring.bench(
            models,
            json,
            html,
            png,
            signatures=signature,
            shapes=sizes,
            batch=batch,
            against=against,
            quantize=quantize,
            calibration=calibration,
            threads=tuple(threads or (1, 2, 4)),
            device=device,
            seconds=seconds,
            limit_s=limit,
            profile=profile,
            modules=import_ or (),
            unsafe=unsafe,
        )


@app.command(short_help="Say in what two models differ, without running them.")
def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="A model, or a text that `inspect` printed (.txt).")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    json: options.Json = None,
    unsafe: options.Unsafe = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Compare A and B as programs: signatures, operators, types, options, constants, quantization, metadata.

    Exit code 0 where they are equal, 1 where they differ, 2 where one cannot be read.

    Example: jfuse diff before.tflite after.tflite --json diff.json
    """
    with work(verbose, quiet, refused=2):
        from jfuse.cli import measuring

        equal = measuring.diff(a, b, json, unsafe=unsafe)
    if not equal:
        raise typer.Exit(1)


@app.command(short_help="List the passes of a conversion, your own too.")
def passes(
    import_: options.Imports = None,
    rules: options.Rules = None,
    json: options.Json = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """List the passes in their order: input, promise, reason of the position, and origin."""
    options.check_modules(import_)
    with work(verbose, quiet):
        from jfuse.cli import rules as listing

        listing.tell_passes(import_, rules, json)
