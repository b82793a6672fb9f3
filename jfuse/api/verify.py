"""`jfuse.verify`: compares two files, models, sources or functions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from jfuse.api.sides import sides_of, with_device, with_installed, with_runtimes, with_source_in_f32
from jfuse.base.errors import JfuseError, VerifyFailed, shown
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.limits import DEFAULT_LIMITS, Limits, need_limits
from jfuse.base.options import given
from jfuse.model import Model
from jfuse.passes.options import CountedStage, OnStage
from jfuse.quantization.data import CalibrationData
from jfuse.records.verification import Verification
from jfuse.running.programs.device import Device
from jfuse.verification.latency import latency_of
from jfuse.verification.options import Edges, Verify
from jfuse.verification.plan import leaks_infinities, passes_infinities_on
from jfuse.verification.quantization_noise.of_file import noise_of, unmeasured
from jfuse.verification.sides import Sides
from jfuse.verification.verify import OnProgress, verify_sides

_BACKENDS = ("cpu", "gpu", "tpu", "cuda", "rocm")
"""Devices of XLA; any other text is a command."""


@only_jfuse_errors("verification")
def verify(
    a: Any,
    b: Any = None,
    options: Verify | None = None,
    *,
    samples: int | None = None,
    inputs: Any = None,
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    tolerance: float | Mapping[str, float] | None = None,
    edges: Edges | None = None,
    save_failing: str | Path | None = None,
    unsafe: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    on_progress: OnProgress = lambda done, total: None,
) -> Verification:
    """Compare `a` with `b`: every output of every call that is tried, up to a tolerance that has a reason.

    a, b: a Model; the path or the bytes of a .tflite file; anything that `jfuse.load` takes (a SavedModel folder, a
        .keras file, a Keras model, a tf.function, concrete functions, a GraphDef), which TensorFlow runs; or a function
        of JAX arrays, with the types that its attribute `input_signature` states, else those of the other side.
        A file and a lowered Model are run on XLA and in LiteRT. If `b` is a file, LiteRT's outputs are the reference;
        if it is a Model, those of the source that it came from, else of its file.
        Without `b` a Model is compared with its own source; a file, and a Model without source, in LiteRT with XLA.
    options: a `jfuse.Verify`, which says how the sides are compared. The next six take the place of its fields.
    samples: how many independent first calls to compare besides. inputs: your own instead of drawn ones.
    sizes: for open dimensions, by name. tolerance: the largest max|a - b| / max|b| of float outputs.
    edges: which edge values are tried. save_failing: a folder for the calls that show a difference.
    unsafe: as `load` has it, for sources that are given as paths.
    limits: for reading the files, and for each call of them on XLA, in TensorFlow, and in LiteRT, which runs in
        processes of its own. A call that reaches one, or takes such a process down, is an error that names the call
        and, where it is found, the operator; its inputs are kept. A `Model` has its own.
    on_progress: called with the number of calls compared, and about how many there will be (0: unknown).

    Returns the result; the report of a Model `a` gets it too. Raises VerifyFailed, with the same in its
    `verification`, where outputs differ, naming the first equation that does; JfuseError where the sides do not take
    the same inputs, or the options do not fit them.
    """
    need_limits(limits)
    everyday = {"samples": samples, "inputs": inputs, "sizes": sizes, "tolerance": tolerance, "edges": edges}
    asked = given(Verify, "options", options, save_failing=save_failing, **everyday)
    result = verify_in(asked, lambda: with_source_in_f32(sides_of(a, b, unsafe=unsafe, limits=limits)), on_progress)
    if isinstance(a, Model):
        a.report.compared(result.differences, result.notes)
    return result


def verify_in(
    options: Verify, sides: Callable[[], Sides], on_progress: OnProgress = lambda done, total: None
) -> Verification:
    """Compare sides as the options say, on the device and in the runtimes that they name."""
    device, runtimes = options.device, options.runtimes
    elsewhere = None if device is None or device in _BACKENDS else Device(device)
    with _on(device if elsewhere is None else None):
        compared = with_runtimes(sides(), runtimes)
        compared = compared if elsewhere is None else with_device(compared, elsewhere, runtimes)
        return verify_sides(compared, options, on_progress)


def compare_with_source(
    lite: Model, source: Model, runtimes: Sequence[str], options: Verify, data: CalibrationData, on_stage: OnStage
) -> None:
    """Add the verification of a conversion to its result and to the report.   runtimes: further ones

    Of a quantized model the float one is compared, and the quantized one with that, on the data of its calibration.
    """
    on_stage("verify")
    started = time.perf_counter()
    if options.inputs is None and passes_infinities_on(source.program) and not leaks_infinities(lite.program, runtimes):
        options = replace(options, edges=options.edges or "infinite")
    options = replace(options, edges=options.edges or "none", shrink=options.shrink or 0)
    sides, notes = with_installed(Sides.of_model(lite.unquantized or lite, source), runtimes)
    try:
        verification = verify_in(
            options, lambda: with_source_in_f32(sides), CountedStage.of(on_stage, "verify", "calls")
        )
    except VerifyFailed as failed:
        failed.report = lite.report
        raise
    lite.verification = verification
    lite.report.compared(verification.differences, [*verification.notes, *notes])
    if lite.unquantized is not None:
        lite.report.noise = noise_of(lite, lite.unquantized, data)
        lite.report.notes += unmeasured(lite.program)
        lite.report.latency = latency_of(lite, lite.unquantized)
    lite.report.seconds["verify"] = time.perf_counter() - started


@contextmanager
def _on(device: str | None) -> Iterator[None]:
    if device is None:
        yield
        return
    try:
        chosen = jax.devices(device)[0]
    except RuntimeError as error:
        raise JfuseError(
            f"there is no device {shown(device)}", expected=f"one of {sorted({d.platform for d in jax.devices()})}"
        ) from error
    with jax.default_device(chosen):
        yield
