"""`jfuse.verify`: anything that computes compared with anything that should compute the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from jfuse.api import choice
from jfuse.errors import JfuseError
from jfuse.model import Model
from jfuse.parties import sides_of
from jfuse.verification.plan import EDGES, Options
from jfuse.verification.result import Verification
from jfuse.verification.verify import OnProgress, verify_sides


def verify(
    a: Any,
    b: Any = None,
    *,
    reference: Any = None,
    samples: int = 0,
    calls: int = 3,
    seed: int = 0,
    inputs: Any = None,
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    signatures: Sequence[str] | None = None,
    tolerance: float | Mapping[str, float] | None = None,
    edges: str = "finite",
    empty: bool = False,
    device: str | None = None,
    save_failing: str | Path | None = None,
    shrink: int = 100,
    equations: bool = False,
    litert_limit_s: float | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> Verification:
    """Compare `a` with `b`: every output of every call that is tried, up to a tolerance that has a reason.

    a, b: a Model; the path or the bytes of a .tflite file; anything that `jfuse.load` takes (a SavedModel folder, a
        .keras file, a Keras model, a tf.function, concrete functions, a GraphDef), which TensorFlow runs; or a function
        of JAX arrays, with the types that its attribute `input_signature` states, else those of the other side.
        A file and a lowered Model are run on XLA and in LiteRT. As `b` a file stands for what LiteRT says of it, a
        Model for the TensorFlow source that it came from, else for its file.
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
    device: "cpu" or "gpu" for XLA; by default jax's own choice.
    save_failing: a folder; where outputs differ, the calls that show it are written there as a .npz file.
    shrink: how many runs at most to spend on a smaller input that fails as well.
    equations: also compare every intermediate value, in one call: `equations` of the result has the error along the
        graph.
    litert_limit_s: how many seconds LiteRT may take for one of the samples; by default 100 times as long as for those
        before, at least a minute (ten for the first one). A sample that takes longer is an error, with its inputs.
    on_progress: called with the number of calls compared, and about how many there will be (0: unknown).

    Returns what was found; the report of a Model `a` gets it too. Raises VerifyFailed, with the same in its
    `verification`, where outputs differ, naming the first equation that does; JfuseError where the sides do not take
    the same inputs, or the options do not fit them.
    """
    if b is not None and reference is not None:
        raise JfuseError("b and reference= are the same", remedy="one of them")
    choice("edges", edges, EDGES)
    options = Options(
        samples,
        calls,
        seed,
        inputs,
        sizes,
        signatures,
        tolerance,
        edges,
        empty,
        None if save_failing is None else Path(save_failing),
        shrink,
        equations,
        litert_limit_s,
    )
    with _on(device):
        found = verify_sides(sides_of(a, b if b is not None else reference), options, on_progress)
    if isinstance(a, Model):
        a.report.compared(found.differences, found.notes)
    return found


@contextmanager
def _on(device: str | None) -> Iterator[None]:
    if device is None:
        yield
        return
    try:
        chosen = jax.devices(device)[0]
    except RuntimeError as error:
        raise JfuseError(
            f"there is no device {device!r}", expected=f"one of {sorted({d.platform for d in jax.devices()})}"
        ) from error
    with jax.default_device(chosen):
        yield
