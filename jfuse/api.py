"""The steps a user can take: lower, convert (load, lower and verify in one), and verify."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from jfuse.errors import JfuseError
from jfuse.ir.graph import Graph
from jfuse.ir.walk import all_eqns
from jfuse.last_resort import only_jfuse_errors
from jfuse.loading import load
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import Rule
from jfuse.model import Model
from jfuse.passes.context import Context, CustomOptions
from jfuse.passes.gates.all_fused import all_fused
from jfuse.passes.pipeline import PIPELINE, PipelineStep, run_pipeline
from jfuse.passes.states.modes import MODES
from jfuse.report import Report
from jfuse.sides import sides_of
from jfuse.verification.plan import EDGES, Options, passes_infinities_on
from jfuse.verification.result import Verification
from jfuse.verification.verify import OnProgress, Sides, verify_sides

OnStage = Callable[[str], None]
SIDES = (None, "right", "left")
LOOPS = ("auto", "while", "unroll")
PREFERENCES = ("fused", "speed")


@only_jfuse_errors("lowering")
def lower(
    model: Model,
    *,
    rules: Iterable[Rule] = (),
    passes: tuple[PipelineStep, ...] = PIPELINE,
    recover: bool = True,
    state: str = "source",
    padding: str | None = None,
    loop: str = "auto",
    prefer: str = "fused",
    strict: bool = False,
    select_tf_ops: bool = False,
    custom_ops: Mapping[str, CustomOptions] | None = None,
    dump_dir: str | Path | None = None,
    on_stage: OnStage = lambda stage: None,
) -> Model:
    """The model in TFLite builtins: loops recognised, composites fused and proven, states placed.

    rules: rules for this call, before the registered ones.
    recover: look for recurrences that nobody annotated.
    state: what lasts from one invoke to the next. "source": what the source keeps in variables; "reset": nothing;
        "keep": the states of all recurrences, for streaming; "io": nothing, the states are inputs and outputs.
    padding: what the caller promises of every mask: the steps that do not count stand on the "right", or on the "left".
    loop: the form of recurrences that do not fuse: "while", "unroll", or "auto", whichever is faster.
    prefer: "fused" takes every fusion; "speed" leaves a recurrence a loop where that was measured to be faster in
        LiteRT on a desktop processor (XNNPACK does not take fused ops).
    strict: a function that the source marks (`experimental_implements`) and that does not fuse is an error, which names
        the function, the rule and the reason.
    select_tf_ops: write ops without a rule as Flex operators, which only a runtime with the Flex delegate runs.
    custom_ops: TensorFlow ops to write as custom operators under their own name, for kernels of your own: those that
        `load` was given. Their options are a flexbuffer map of the node's attributes (None or True) or of other ones (a
        dict), bytes, or what a function of the node's attributes returns.
    dump_dir: a folder to write the text after each pass to.
    Raises LowerError where something has no TFLite spelling; nothing is written then.
    """
    report = Report(assumptions=list(model.report.assumptions), notes=list(model.report.notes))
    choice("state", state, MODES)
    choice("padding", padding, SIDES)
    choice("loop", loop, LOOPS)
    choice("prefer", prefer, PREFERENCES)
    variables = model.imported.variable_names if model.imported else ()
    ctx = Context(
        default_rules().extended(rules),
        report,
        recover=recover,
        state=state,
        padding=padding,
        loop=loop,
        prefer=prefer,
        on_stage=on_stage,
        variables=variables,
        select_tf_ops=select_tf_ops,
        custom_ops=custom_ops or {},
    )
    program = run_pipeline(model.program, ctx, passes, dump_dir=None if dump_dir is None else Path(dump_dir))
    if strict:
        all_fused(ctx)
    report.operators = operator_counts(program.graphs())
    return Model(program, model.imported, report)


@only_jfuse_errors("conversion")
def convert(
    source: Any,
    *,
    signatures: Sequence[str] | None = None,
    input_signature: Sequence[Any] | None = None,
    input_tensors: Sequence[str] | None = None,
    output_tensors: Sequence[str] | None = None,
    rules: Iterable[Rule] = (),
    recover: bool = True,
    state: str = "source",
    padding: str | None = None,
    loop: str = "auto",
    prefer: str = "fused",
    strict: bool = False,
    select_tf_ops: bool = False,
    custom_ops: Mapping[str, CustomOptions] | None = None,
    verify: bool = True,
    samples: Any = None,
    tolerance: float | Mapping[str, float] | None = None,
    unsafe: bool = False,
    dump_dir: str | Path | None = None,
    on_stage: OnStage = lambda stage: None,
) -> Model:
    """`load`, `lower` and `verify` in one; `result.save(path)` writes the file, `result.report` tells what happened.

    Arguments as for `load` and `lower`; `verify=False` skips the comparison with TensorFlow and LiteRT (fusions are
    still proven).
    samples: inputs of your own to compare on instead of drawn ones, as `verify` takes `inputs`.
    tolerance: as in `verify`.
    """
    if samples is not None and not verify:
        raise JfuseError("samples= are what is compared on", found="verify=False", remedy="one of the two")
    rules = tuple(rules)
    started = time.perf_counter()
    on_stage("import")
    model = load(
        source,
        signatures=signatures,
        input_signature=input_signature,
        input_tensors=input_tensors,
        output_tensors=output_tensors,
        rules=rules,
        custom_ops=tuple(custom_ops or ()),
        unsafe=unsafe,
    )
    imported = time.perf_counter() - started
    lite = lower(
        model,
        rules=rules,
        recover=recover,
        state=state,
        padding=padding,
        loop=loop,
        prefer=prefer,
        strict=strict,
        select_tf_ops=select_tf_ops,
        custom_ops=custom_ops,
        dump_dir=dump_dir,
        on_stage=on_stage,
    )
    lite.report.seconds = {"import": imported, **lite.report.seconds}
    on_stage("export")
    started = time.perf_counter()
    lite.report.size_bytes = len(lite.to_bytes())
    lite.report.seconds["export"] = time.perf_counter() - started
    if verify:
        on_stage("verify")
        started = time.perf_counter()
        edges = "infinite" if samples is None and passes_infinities_on(model.program) else "none"
        options = Options(inputs=samples, tolerance=tolerance, edges=edges)
        found = verify_sides(Sides.of_model(lite, model), options)
        lite.report.compared(found.differences, found.notes)
        lite.report.seconds["verify"] = time.perf_counter() - started
    return lite


def choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise JfuseError unless the option has one of these values."""
    if value not in choices:
        known = " or ".join(map(repr, choices))
        raise JfuseError(f"no {name} {value!r}", expected=known, remedy=f"{name}={choices[0]!r}")


def operator_counts(graphs: Iterable[Graph]) -> dict[str, int]:
    """How many operators of each kind the files' subgraphs hold, most frequent first."""
    counts = Counter(eqn.op.name for graph in graphs for eqn in all_eqns(graph))
    return dict(counts.most_common())


@only_jfuse_errors("verification")
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
    unsafe: bool = False,
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
    unsafe: as `load` has it, for sources that are given as paths.
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
        found = verify_sides(sides_of(a, b if b is not None else reference, unsafe=unsafe), options, on_progress)
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
