"""`jfuse convert`, `jfuse verify`, `jfuse inspect`, `jfuse explain`, `jfuse ops` and `jfuse demo`.

Exit codes: 0 done; 1 refused, differing or unreadable; 2 wrong usage of the command line.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import jfuse
from jfuse.api import LOOPS, PREFERENCES, SIDES
from jfuse.cli import conversion
from jfuse.cli import verify as verifying
from jfuse.cli.demo import run_demo
from jfuse.cli.tables import print_summary
from jfuse.errors import JfuseError, printable
from jfuse.passes.states.modes import MODES
from jfuse.reports import coverage
from jfuse.reports.explain import explain_lines

app = typer.Typer(
    help="TensorFlow functions to proven, fused TensorFlow Lite files.", no_args_is_help=True, add_completion=False
)
console = Console()
errors = Console(stderr=True)

Output = Annotated[Path, typer.Option("-o", "--output", help="The .tflite file to write.")]
Padding = Annotated[str | None, typer.Option(help="Your promise of every mask: right or left.")]
Unsafe = Annotated[
    bool, typer.Option("--unsafe", help="Let SOURCE run code of its own and work on files; for authors you trust.")
]
Signatures = Annotated[list[str] | None, typer.Option("--signature", help="A signature to take; all without it.")]


def main() -> None:
    """The console script."""
    conversion.set_environment()
    signal.signal(signal.SIGTERM, _end)
    app()


def _end(number: int, frame: object) -> None:
    """Leave as after an error, so that temporary files and workers go."""
    raise SystemExit(128 + number)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jfuse {jfuse.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """TensorFlow functions to proven, fused TensorFlow Lite files."""


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="A SavedModel folder or a .keras file.")],
    output: Output,
    signature: Signatures = None,
    state: Annotated[
        str, typer.Option(help="What lasts from one invoke to the next: source, reset, keep or io.")
    ] = "source",
    padding: Padding = None,
    loop: Annotated[str, typer.Option(help="Recurrences that do not fuse: auto, while or unroll.")] = "auto",
    prefer: Annotated[str, typer.Option(help="fused, or speed: a loop where that is faster.")] = "fused",
    strict: Annotated[bool, typer.Option("--strict", help="A marked function that does not fuse is an error.")] = False,
    select_tf_ops: Annotated[
        bool, typer.Option("--select-tf-ops", help="Write ops without a rule for the Flex delegate.")
    ] = False,
    custom_op: Annotated[
        list[str] | None, typer.Option("--custom-op", help="A TensorFlow op to write as a custom operator of its name.")
    ] = None,
    verify: Annotated[bool, typer.Option(help="Compare with TensorFlow and LiteRT.")] = True,
    samples: conversion.Samples = None,
    tolerance: verifying.AllowedError = None,
    dump_dir: Annotated[Path | None, typer.Option(help="A folder for the text after each pass.")] = None,
    json: conversion.Json = None,
    html: conversion.Html = None,
    unsafe: Unsafe = False,
) -> None:
    """Convert SOURCE, prove what was fused, compare the file with TensorFlow, and write it."""
    reported = json is not None or html is not None
    for name, value, choices in (("state", state, MODES), ("loop", loop, LOOPS), ("prefer", prefer, PREFERENCES)):
        _one_of(name, value, choices)
    _one_of("padding", padding, SIDES)
    conversion.check_targets(source, output, json, html)
    with _progress() as on_stage:
        result = jfuse.convert(
            source,
            signatures=signature,
            state=state,
            padding=padding,
            loop=loop,
            prefer=prefer,
            strict=strict,
            select_tf_ops=select_tf_ops,
            custom_ops=dict.fromkeys(custom_op or ()),
            verify=verify and not reported,
            samples=None if reported and verify else samples,
            tolerance=tolerance,
            unsafe=unsafe,
            dump_dir=dump_dir,
            on_stage=on_stage,
        )
        if reported:
            on_stage("report")
            compared = conversion.Compared(samples, tolerance) if verify else None
            conversion.write_reports(result, source, output, json, html, compared)
        result.save(output)
    print_summary(console, result.report, output)


@app.command()
def verify(
    model: verifying.Model,
    against: verifying.Against = None,
    signature: Signatures = None,
    samples: verifying.Samples = 0,
    calls: verifying.Calls = 3,
    seed: verifying.Seed = 0,
    inputs: verifying.Inputs = None,
    size: verifying.Size = None,
    tolerance: verifying.AllowedError = None,
    edges: verifying.Edges = "finite",
    empty: verifying.Empty = False,
    device: verifying.Device = None,
    json: verifying.Json = None,
    html: verifying.Html = None,
    save_failing: verifying.SaveFailing = Path(),
    litert_limit: verifying.LiteRtLimit = None,
    unsafe: Unsafe = False,
) -> None:
    """Compare MODEL with what it should answer like: exit code 0 where it does, 1 where it does not."""
    sizes = verifying.sizes_of(size)
    with _refusals():
        found, failed = verifying.verified(
            errors,
            model,
            against,
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
            litert_limit_s=litert_limit,
            unsafe=unsafe,
            equations=html is not None,
        )
        verifying.print_verification(console, found)
        verifying.write_reports(found, json, html)
        if failed is not None:
            raise failed


@app.command()
def inspect(
    source: Annotated[Path, typer.Argument(help="A .tflite file, a SavedModel folder or a .keras file.")],
    signature: Signatures = None,
    unsafe: Unsafe = False,
) -> None:
    """Print the text form of SOURCE."""
    with _progress() as on_stage:
        on_stage("import")
        model = jfuse.load(source, signatures=signature, unsafe=unsafe)
    console.print(str(model), markup=False, highlight=False, soft_wrap=True)


@app.command()
def explain(
    source: Annotated[Path, typer.Argument(help="A SavedModel folder or a .keras file.")],
    signature: Signatures = None,
    padding: Padding = None,
    unsafe: Unsafe = False,
) -> None:
    """Say of each recurrence in SOURCE what it is, how it was proven and what it becomes, or why it does not fuse."""
    with _progress() as on_stage:
        result = jfuse.convert(
            source, signatures=signature, padding=padding, verify=False, unsafe=unsafe, on_stage=on_stage
        )
    for line in explain_lines(result.report):
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


@app.command()
def ops(
    name: Annotated[str | None, typer.Argument(help="An op of TensorFlow or a builtin of TFLite.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/ops.md.")] = False,
) -> None:
    """Say what jfuse knows of an op: its rule, its builtins and types, or what can be done without a rule."""
    if markdown:
        typer.echo(coverage.markdown(), nl=False)
        return
    lines = coverage.about(name) if name else coverage.listing()
    for line in lines:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
    if name and not coverage.is_known(name):
        raise typer.Exit(1)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where to put the SavedModel and the file.")] = Path("jfuse-demo"),
) -> None:
    """Make a small Keras 3 LSTM classifier, save it with model.export, convert that, and time the file."""
    with _progress() as on_stage:
        done = run_demo(folder, on_stage)
    console.print(f"Keras {done.keras_version} model saved with model.export in [bold]{done.saved_model}[/bold]")
    print_summary(console, done.result.report, done.file)
    console.print(f"one invoke in LiteRT, one thread: [bold]{done.latency_ms:.3f} ms[/bold] (median of {done.invokes})")


def _one_of(name: str, value: object, choices: Sequence[object]) -> None:
    """A wrong value is a wrong use of the command line, told before anything slow."""
    if value not in choices:
        known = ", ".join(str(c) for c in choices if c is not None)
        raise typer.BadParameter(f"{value!r} is none of {known}", param_hint=f"--{name}")


@contextmanager
def _progress() -> Iterator[jfuse.api.OnStage]:
    """A line with the stage that runs now; errors as `_refusals` has them."""
    with _refusals(), errors.status("starting") as status:
        yield lambda stage: status.update(f"{stage} …")


@contextmanager
def _refusals() -> Iterator[None]:
    """A JfuseError becomes its message and exit code 1."""
    try:
        yield
    except JfuseError as error:
        errors.print(f"{type(error).__name__}: {error}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error
    except OSError as error:
        errors.print(f"cannot read or write: {error}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error
