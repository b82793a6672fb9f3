"""`jfuse.verify`: compares two files, models, sources or functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from jfuse.api.sides import sides_of, with_device, with_runtimes, with_source_in_f32
from jfuse.base.errors import JfuseError, need_choice, shown
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.limits import DEFAULT_LIMITS, Limits, need_limits
from jfuse.model import Model
from jfuse.records.verification import Verification
from jfuse.running.programs.device import Device
from jfuse.verification.options import EDGES, Edges, FindingOptions, SamplingOptions, VerifyOptions
from jfuse.verification.verify import OnProgress, verify_sides

_BACKENDS = ("cpu", "gpu", "tpu", "cuda", "rocm")
"""Devices of XLA; any other text is a command."""


@only_jfuse_errors("verification")
def verify(
    a: Any,
    b: Any = None,
    *,
    reference: Any = None,
    samples: int = SamplingOptions.samples,
    calls: int = SamplingOptions.calls,
    seed: int = SamplingOptions.seed,
    inputs: Any = None,
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    signatures: Sequence[str] | None = None,
    tolerance: float | Mapping[str, float] | None = None,
    edges: Edges = "finite",
    empty: bool = SamplingOptions.empty,
    device: str | None = None,
    save_failing: str | Path | None = None,
    shrink: int = FindingOptions.shrink,
    equations: bool = FindingOptions.equations,
    runtimes: Sequence[str] = (),
    unsafe: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    on_progress: OnProgress = lambda done, total: None,
) -> Verification:
    """Compare `a` with `b`: every output of every call that is tried, up to a tolerance that has a reason.

    a, b: a Model; the path or the bytes of a .tflite file; anything that `jfuse.load` takes (a SavedModel folder, a
        .keras file, a Keras model, a tf.function, concrete functions, a GraphDef), which TensorFlow runs; or a function
        of JAX arrays, with the types that its attribute `input_signature` states, else those of the other side.
        A file and a lowered Model are run on XLA and in LiteRT. If `b` is a file, LiteRT's outputs are the reference;
        if it is a Model, those of its TensorFlow source, else of its file.
        Without `b` a Model is compared with its own source; a file, and a Model without source, in LiteRT with XLA.
    reference: another name for `b`.
    samples: how many independent first calls to compare besides, in batches; where something is kept between calls, how
        many rows of calls.
    calls: calls in a row for each signature and choice of sizes, at the scales 1, 0.1, 4, 1, …; what is kept between
        calls goes on from one to the next.
    seed: of everything that is drawn. The same seed gives the same inputs.
    inputs: your own instead of drawn ones: one call as an array, a tuple of arrays by position or a dict by name;
        several calls in a row as a list, an iterator or a tf.data.Dataset of these; or the path of a .npz file with
        an array for each input (one call), or `number/signature/input` (calls in a row). Each element is what one call
        takes, with its batch; nothing is batched or unbatched. Of several signatures the first of `signatures` is
        called.
    sizes: for open dimensions, by the names that `print(model)` shows, one choice or several; by default two for each.
    signatures: the keys to compare, as `a` has them; by default all that both have.
    tolerance: the largest max|a - b| / max|b| of float outputs, for all or by name. By default it follows from dtypes
        and operators, with the reason in each Difference; everything but floats must be equal.
    edges: "finite" also tries zeros, ones, denormals, the largest and the smallest numbers, single steps of masks, and
        ids and lengths at both ends; "nan" NaNs and infinities, too; "none" nothing of these. Where an overflow
        or a rounding of the input itself decides, edges are left out, with a note.
    empty: also a batch of no rows, where the first axis is open.
    device: "cpu" or "gpu" for XLA; by default jax's own choice. Anything else is a command that starts a Python which
        has ai-edge-litert somewhere else, as "ssh pi@host python3": the file of `a` is run there as well, without
        anything being installed, and in its CompiledModel where `runtimes` has that.
    save_failing: a folder; where outputs differ, the calls that show it are written there as a .npz file.
    shrink: how many runs at most to spend on a smaller input that fails as well.
    equations: also compare every intermediate value, in one call: `equations` of the result has the error along the
        graph.
    runtimes: further runtimes to run the file of `a` in: "compiled-model" (LiteRT's CompiledModel, on the CPU), and
        "tflite-micro", where it is installed (`jfuse[micro]`).
    unsafe: as `load` has it, for sources that are given as paths.
    limits: for reading the files, and for each call of them on XLA, in TensorFlow, and in LiteRT, which runs in
        processes of its own. A call that reaches one, or takes such a process down, is an error that names the call
        and, where it is found, the operator; its inputs are kept. A `Model` has its own.
    on_progress: called with the number of calls compared, and about how many there will be (0: unknown).

    Returns the result; the report of a Model `a` gets it too. Raises VerifyFailed, with the same in its
    `verification`, where outputs differ, naming the first equation that does; JfuseError where the sides do not take
    the same inputs, or the options do not fit them.
    """
    if b is not None and reference is not None:
        raise JfuseError("b and reference= are the same", remedy="one of them")
    need_limits(limits)
    need_choice("edges", edges, EDGES)
    options = VerifyOptions(
        SamplingOptions(samples, calls, seed, inputs, sizes, signatures, edges, empty),
        FindingOptions(save_failing, shrink, equations),
        tolerance,
    )
    if not isinstance(device, str | None):
        raise JfuseError(f"no device {shown(device)}", expected="the name of a backend of XLA, or a command")
    elsewhere = None if device is None or device in _BACKENDS else Device(device)
    with _on(device if elsewhere is None else None):
        sides = with_source_in_f32(sides_of(a, b if b is not None else reference, unsafe=unsafe, limits=limits))
        sides = with_runtimes(sides, runtimes)
        sides = sides if elsewhere is None else with_device(sides, elsewhere, runtimes)
        result = verify_sides(sides, options, on_progress)
    if isinstance(a, Model):
        a.report.compared(result.differences, result.notes)
    return result


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
