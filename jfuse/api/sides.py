"""The sides of a comparison: runners of a model, a file, a TensorFlow source or a JAX function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jfuse.api.load import load
from jfuse.base.errors import JfuseError, LowerError, need_choice
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.base.option_values import names_of
from jfuse.frontends.jax_functions.source import is_jax_function
from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.integer_types import Rounding, is_quantized
from jfuse.model import Model
from jfuse.passes.legalize.float_precision import in_f32
from jfuse.proof.inputs import open_sizes
from jfuse.quantization.real_numbers.boundaries import with_real_boundaries
from jfuse.running.loaded_file import asked
from jfuse.running.micro import has_micro
from jfuse.running.partition import without_body
from jfuse.running.programs.device import Device
from jfuse.tflite.mapped_file import read_file
from jfuse.tflite.read.external import has_other_files
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.targets.names import RUNTIMES
from jfuse.tflite.write.named_file import with_signature
from jfuse.verification.compare.read_back import reads_back
from jfuse.verification.compare.ties import chooses
from jfuse.verification.compare.tolerance import narrowest_computed
from jfuse.verification.runners.in_compiled_model import InCompiledModel
from jfuse.verification.runners.in_functions import source_of
from jfuse.verification.runners.in_jax import InJax, parameter_names, stated_inputs
from jfuse.verification.runners.in_litert import InLiteRt
from jfuse.verification.runners.in_micro import InMicro
from jfuse.verification.runners.in_real_numbers import InRealNumbers
from jfuse.verification.runners.on_xla import ComparedModel, OnXla
from jfuse.verification.sides import Sides
from jfuse.verification.subject import Interface, Subject


@dataclass(frozen=True)
class Party:
    """One of the two that are compared.

    runners: compute it; messages name the first. reference: the one of them, or its source, that
    others are compared with. text: its name; path: whether that is a path.
    """

    runners: tuple[Subject, ...]
    reference: Subject
    text: str
    path: bool = False
    model: Model | None = None
    data: bytes | None = None


def sides_of(a: Any, b: Any, *, unsafe: bool = False, limits: Limits = DEFAULT_LIMITS) -> Sides:
    """Who is compared with whom.   b: None for the source that `a` has, or for its graph on XLA

    unsafe, limits: as `jfuse.load` has them.

    A model that XLA and LiteRT both run is compared in both, on either side; if both sides are such models, the first
    is compared with the second's reference. Raises JfuseError where there is nothing to compare with.
    """
    if b is None:
        return _alone(a, unsafe, limits)
    # A function of jax has no types of its own: it takes those of the other side.
    if is_function(a) and is_function(b):
        ours = _function(a, None)
        theirs = _function(b, ours)
    elif is_function(a):
        theirs = party(b, unsafe, limits)
        theirs = theirs if _takes_integers((stated_inputs(a) or {}).values()) else _in_real_numbers(theirs)
        ours = _function(a, theirs)
    elif is_function(b):
        ours = party(a, unsafe, limits)
        ours = ours if _takes_integers((stated_inputs(b) or {}).values()) else _in_real_numbers(ours)
        theirs = _function(b, ours)
    else:
        ours, theirs = (party(side, unsafe, limits) for side in (a, b))
        ours, theirs = _as_other_takes(ours, theirs), _as_other_takes(theirs, ours)
    is_file = len(theirs.runners) > 1 and len(ours.runners) == 1
    subjects, reference = (theirs, ours) if is_file else (ours, theirs)
    return Sides(
        subjects.runners,
        reference.reference,
        (ours.text, theirs.text),
        ours.path and theirs.path,
        subjects.model,
        subjects.data,
        reference.model,
    )


def _as_other_takes(one: Party, other: Party) -> Party:
    """The party, in real numbers if the other has no quantized inputs."""
    types = (t for i in other.runners[0].signatures.values() for t in i.inputs.values())
    return one if _takes_integers(types) else _in_real_numbers(one)


def _takes_integers(types: Iterable[TensorType]) -> bool:
    """Whether some of the types are those that files quantize to."""
    return any(t.dtype in (DType.i8, DType.u8, DType.i16) for t in types)


def _in_real_numbers(one: Party) -> Party:
    """A file with integers at its boundaries, with QUANTIZE and DEQUANTIZE around it; in LiteRT the file as it is."""
    if one.model is None or one.data is None:
        return one
    program = with_real_boundaries(one.model.program)
    if program is one.model.program:
        return one
    model = Model(program, one.model.imported, one.model.report, one.model.limits, functions=one.model.functions)
    changed: dict[int, Subject] = {}
    for runner in one.runners:
        if isinstance(runner, OnXla):
            changed[id(runner)] = OnXla(model)
        elif isinstance(runner, InLiteRt):
            changed[id(runner)] = InRealNumbers(runner, program)
    runners = tuple(changed.get(id(r), r) for r in one.runners)
    reference = changed.get(id(one.reference), one.reference)
    return replace(one, runners=runners, reference=reference, model=model, data=model.to_bytes())


def with_runtimes(sides: Sides, runtimes: Sequence[str]) -> Sides:
    """The sides with the subjects' file in further runtimes.

    Raises JfuseError for a runtime that there is not, that is not installed, or that cannot run the file.
    """
    for runtime in names_of("runtimes=", runtimes) or ():
        need_choice("runtime", runtime, RUNTIMES)
        if sides.data is None or sides.model is None:
            raise JfuseError(f"there is no file for {runtime} to run", remedy="a .tflite file, or a lowered model")
        kind = _RUNNERS[runtime]
        runner = kind(sides.data, sides.model.program, sides.model.limits or DEFAULT_LIMITS)
        if any(isinstance(s, kind) for s in (*sides.subjects, sides.reference)):
            continue
        if kind is not InMicro or not isinstance(sides.model, Model) or not _rounds_as(sides.model, "tflm"):
            sides = replace(sides, subjects=(*sides.subjects, runner))
        else:
            rounded = OnXla(sides.model.rounded_as("tflm"))
            sides = replace(sides, apart=(*sides.apart, (runner, rounded)))
    return sides


def with_device(sides: Sides, device: Device, runtimes: Sequence[str] = ()) -> Sides:
    """The sides with the subjects' file in LiteRT on a device, in CompiledModel there where `runtimes` has that.

    Raises JfuseError where there is no file, or LiteRT does not start there.
    """
    if sides.data is None or sides.model is None:
        raise JfuseError("there is no file for the device to run", remedy="a .tflite file, or a lowered model")
    program, limits = sides.model.program, sides.model.limits or DEFAULT_LIMITS
    about = asked(device, limits)
    runners: list[Subject] = [InLiteRt(sides.data, program, limits, f"LiteRT on {about.name}", device)]
    if _COMPILED in runtimes:
        compiled = InCompiledModel(sides.data, program, limits, f"CompiledModel on {about.name}", device)
        compiled.process().close()  # it may not be there, which is told before anything slow
        runners.append(compiled)
    if about.machine in _ARM64 and isinstance(sides.model, Model) and _rounds_as(sides.model, "arm64"):
        rounded = OnXla(sides.model.rounded_as("arm64"))
        return replace(sides, apart=(*sides.apart, *((r, rounded) for r in runners)), device=str(about))
    return replace(sides, subjects=(*sides.subjects, *runners), device=str(about))


_ARM64 = ("aarch64", "arm64")
_MICRO, _COMPILED = "tflite-micro", "compiled-model"
_RUNNERS: Mapping[str, type[InMicro | InCompiledModel]] = {_MICRO: InMicro, _COMPILED: InCompiledModel}


def _rounds_as(model: Model, rounding: Rounding) -> bool:
    """Whether a file has integers, and bodies for all of them in a rounding, which may not be that of LiteRT here."""
    has_integers = any(is_quantized(v.type) for g in model.program.graphs() for e in all_eqns(g) for v in e.outputs)
    return has_integers and without_body(model.program.graphs(), rounding) is None


def with_installed(sides: Sides, runtimes: Sequence[str]) -> tuple[Sides, list[str]]:
    """`with_runtimes` of those that are installed, and notes on the others."""
    if _MICRO not in runtimes or has_micro():
        return with_runtimes(sides, runtimes), []
    others = [name for name in runtimes if name != _MICRO]
    notes = (
        f"{_MICRO} is not installed (jfuse[micro]): the file was compared in {' and '.join(['LiteRT', *others])} alone"
    )
    return with_runtimes(sides, others), [notes]


def with_source_in_f32(sides: Sides) -> Sides:
    """The sides with the source computed in f32 on XLA as one more, where it alone has 16-bit floats.

    There a file of f32 is compared as closely as any other. Not where a choice is made of real numbers: roundings that
    decide it are looked for in the source itself.
    """
    source, model = sides.source, sides.model
    if source is None or model is None or source is model or narrowest_computed(model.program) is not None:
        return sides
    if narrowest_computed(source.program) is None or any(map(chooses, _eqns(source))):
        return sides
    if any(is_quantized(v.type) for e in _eqns(model) for v in e.outputs):
        return sides
    names = ((s.output_names, s.graph.outputs, False) for s in model.program.signatures)
    named = [*names, *((s.input_names, s.graph.inputs, True) for s in model.program.signatures)]
    types = {(n, is_input): a.type.dtype for of, atoms, is_input in named for n, a in zip(of, atoms, strict=False)}
    program = in_f32(source.program, lambda name, dtype, is_input: types.get((name, is_input)) is dtype)
    wide = OnXla(Model(program, limits=source.limits), "source in f32")
    ours, theirs = sides.subjects[0].signatures, wide.signatures
    if any(key not in theirs or _alike(ours[key]) != _alike(theirs[key]) for key in ours):
        return sides
    return replace(sides, apart=(*sides.apart, *((subject, wide) for subject in sides.subjects)))


def _eqns(model: ComparedModel) -> Iterator[Eqn]:
    return (eqn for graph in model.program.graphs() for eqn in all_eqns(graph))


def _alike(of: Interface) -> object:
    """The parts of an interface that must agree between signatures of one name."""
    return list(of.inputs), of.outputs, of.states, of.exposed


def _alone(a: Any, unsafe: bool, limits: Limits) -> Sides:
    """A model against its own source; without one its file in LiteRT against its graph on XLA."""
    if is_function(a):
        raise JfuseError("a function alone cannot be compared", remedy="jfuse.verify(function, with_what)")
    one = party(a, unsafe, limits)
    if one.model is not None and source_of(one.model) is not None and isinstance(a, Model):
        return Sides(one.runners, one.reference, (one.text, ""), one.path, one.model, one.data, one.model)
    if one.data is None:
        raise JfuseError(
            f"{one.text} is not a lowered model or a file",
            expected="something to compare it with",
            remedy="jfuse.verify(a, b), or jfuse.convert, which compares its result",
        )
    xla, litert = one.runners
    return Sides((litert,), xla, (one.text, ""), one.path, one.model, one.data, one.model)


def party(source: Any, unsafe: bool = False, limits: Limits = DEFAULT_LIMITS) -> Party:
    """A Model, a file (path or bytes), or any source of `jfuse.load`."""
    if isinstance(source, Model):
        return _of_model(source)
    if isinstance(source, bytes | bytearray | memoryview):
        return _of_file(bytes(source), "the file", limits)
    is_path = isinstance(source, str | Path)
    if is_path and Path(source).suffix == ".tflite":
        if not Path(source).is_file():
            raise JfuseError(f"{source} does not exist")
        return _of_file(Path(source), str(source), limits)
    model = load(source, unsafe=unsafe, limits=limits)
    runner = source_of(model)
    assert runner is not None
    return Party((runner,), runner, str(source) if is_path else _name_of(source), is_path, model)


def _of_file(source: bytes | Path, text: str, limits: Limits) -> Party:
    is_path = isinstance(source, Path)
    data = bytes(read_file(source)[0]) if isinstance(source, Path) else source
    model = Model(load_tflite(data, beside=source if isinstance(source, Path) else None, limits=limits), limits=limits)
    if has_other_files(data):  # LiteRT's interpreter reads one
        data = model.to_bytes()
    data = with_signature(data, model.program)
    runtime = _runtime_of(model, data)
    return Party((OnXla(model), runtime), runtime, text, is_path, model, data)


def _runtime_of(model: Model, data: bytes) -> Subject:
    """The runtime that computes the integers that the model has on XLA."""
    limits = model.limits or DEFAULT_LIMITS
    in_micro = model.integers == "tflm"
    return InMicro(data, model.program, limits) if in_micro else InLiteRt(data, model.program, limits=limits)


def _of_model(model: Model) -> Party:
    """A Model on XLA and, once it is lowered, in LiteRT; others are compared with its source where it has one."""
    xla = OnXla(model)
    runners: tuple[Subject, ...] = (xla,)
    data = None
    try:
        data = model.to_bytes()
    except LowerError:
        if source_of(model) is None:
            raise
    else:
        reads_back(model.program, data)
        runners = (xla,) if model.integers == "reference" else (xla, _runtime_of(model, data))
    reference = source_of(model) or runners[-1]
    return Party(runners, reference, "model", False, model, data)


def is_function(source: Any) -> bool:
    """Whether this is a function of JAX arrays: a callable that is nothing of TensorFlow's and no Model."""
    return is_jax_function(source) and not isinstance(source, Model)


def _function(function: Callable[..., Any], other: Party | None) -> Party:
    """A JAX function, with the specs of its `input_signature`, else the inputs of the other side."""
    inputs: Mapping[str, TensorType] | None = stated_inputs(function)
    key = "serving_default"
    if other is not None:
        signatures = other.runners[0].signatures
        if len(signatures) > 1:
            raise JfuseError("a function is compared with one signature", found=f"several: {list(signatures)}")
        ((key, interface),) = signatures.items()
        inputs = inputs if inputs is not None else _as_parameters(function, interface.inputs)
    if inputs is None:
        raise JfuseError(
            f"nothing tells what {_name_of(function)} takes", remedy="give it an attribute input_signature"
        )
    sizes = {name: 2 + i for i, name in enumerate(open_sizes(inputs.values()))}
    subject = InJax(function, inputs, sizes, key)
    return Party((subject,), subject, _name_of(function))


def _as_parameters(function: Callable[..., Any], types: Mapping[str, TensorType]) -> Mapping[str, TensorType]:
    """The other side's types in the order of the parameters of the same names, else in their own."""
    names = parameter_names(function, len(types))
    return {n: types[n] for n in names} if set(names) == set(types) else types


def _name_of(source: Any) -> str:
    return str(getattr(source, "__name__", None) or type(source).__name__)
