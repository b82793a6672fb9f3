"""Which operators tflite-micro computes in integers as well as LiteRT does, for `bench.target_tables`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import jfuse
from jfuse.ir.graph import Eqn, Program
from jfuse.ir.types import DType
from jfuse.tflite.targets.table import integers_of

RECIPES = {"int8": DType.i8, "int16x8": DType.i16}
FACTORS = (1, 8)  # inputs as a row draws them, and such as reach beyond the ends of RELU6 and its kin
LOSS_DB = 3.0  # an answer is another one where it is so much farther from the floats' than LiteRT's, and
STEPS = 1  # more than so many steps from it: each runtime rounds in its own way


def in_a_process(work: Callable[[], bool]) -> bool:
    """Run a function in a forked process; False if the process dies."""
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0


def try_integers(
    program: Program,
    floats: bytes,
    inputs: Sequence[np.ndarray],
    agrees: Callable[[bytes, Sequence[np.ndarray]], bool],
    tried: dict[str, dict[str, bool]],
) -> None:
    """Note how tflite-micro runs the only operator of a program in integers: rightly where every trial is right.

    floats: the program's file. agrees: whether a file answers in tflite-micro as in LiteRT, which that of floats must:
    what fails for floats, too, tells nothing of integers. tried: by builtin and types; filled.
    """
    signature = program.signatures[0]
    if len(signature.graph.eqns) != 1 or not any(a.dtype == np.float32 for a in inputs):
        return
    builtin = str(signature.graph.eqns[0].op.builtin)
    for factor in FACTORS:
        given = [np.asarray(a * factor, a.dtype) if a.dtype == np.float32 else a for a in inputs]
        if not in_a_process(partial(agrees, floats, given)):
            continue
        for recipe, dtype in RECIPES.items():
            made = _in_integers(program, given, recipe)
            if made is None or (types := integers_of(made[0])) is None or not types.startswith(dtype.value):
                continue
            took = in_a_process(partial(_is_as_near, made[1], floats, given))
            known = tried.setdefault(builtin, {})
            known[types] = known.get(types, True) and took
            if not took:
                print(f"{builtin} in {types}, inputs times {factor}: {made[0].outputs[0].type}", file=sys.stderr)


def _in_integers(program: Program, inputs: Sequence[np.ndarray], recipe: str) -> tuple[Eqn, bytes] | None:
    """The program's operator in integers, and its file, which takes and gives integers; None where it stays float."""
    wide = "int16" if recipe == "int16x8" else recipe
    builtin = program.signatures[0].graph.eqns[0].op.builtin
    samples = [dict(zip(program.signatures[0].input_names, inputs, strict=False))]
    try:
        how = jfuse.Recipe.named(recipe, inputs=wide, outputs=wide)
        lite = jfuse.lower(jfuse.Model(program), quantize=how, calibration=samples)
    except jfuse.JfuseError:
        return None
    made = [e for e in lite.program.graphs()[0].eqns if e.op.scales is None]
    return (made[0], lite.to_bytes()) if [e.op.builtin for e in made] == [builtin] else None


def _is_as_near(data: bytes, floats: bytes, inputs: Sequence[np.ndarray]) -> bool:
    """Whether tflite-micro's integers are as near to the floats as LiteRT's, or in a step of those; twice in a row."""
    from ai_edge_litert.interpreter import Interpreter
    from tflite_micro.python.tflite_micro import runtime

    (wanted,) = _answers(Interpreter(model_content=floats, num_threads=1), inputs, calls=1)
    litert = Interpreter(model_content=data, num_threads=1)
    theirs = list(_answers(litert, inputs, calls=2))
    given = [_integers(a, d) for a, d in zip(inputs, litert.get_input_details(), strict=True)]
    micro = runtime.Interpreter.from_bytes(data, arena_size=1 << 22)
    for expected in theirs:
        for number, array in enumerate(given):
            micro.set_input(array, number)
        micro.invoke()
        for number, (detail, real, other) in enumerate(zip(litert.get_output_details(), wanted, expected, strict=True)):
            found = _reals(micro.get_output(number).reshape(real.shape), detail)
            scale = detail["quantization_parameters"]["scales"]
            real = np.where(np.isfinite(real), real, other)  # NaNs, which integers have not
            is_near = np.abs(found - other).max(initial=0) <= (1.01 * STEPS * scale[0] if len(scale) else 0)
            if not is_near and _snr_db(found, real) < _snr_db(other, real) - LOSS_DB:
                return False
    return True


def _answers(interpreter: Any, inputs: Sequence[np.ndarray], *, calls: int) -> Iterator[list[np.ndarray]]:
    """The results of each call in real numbers."""
    interpreter.allocate_tensors()
    for _ in range(calls):
        for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], _integers(array, detail))
        interpreter.invoke()
        details = interpreter.get_output_details()
        yield [_reals(interpreter.get_tensor(d["index"]), d) for d in details]


def _integers(x: np.ndarray, detail: Any) -> np.ndarray:
    """Numbers as an input takes them."""
    scale, zero = (detail["quantization_parameters"][name] for name in ("scales", "zero_points"))
    if not len(scale):
        return x
    limits = np.iinfo(detail["dtype"])
    return np.asarray(np.clip(np.rint(x / scale[0]) + zero[0], limits.min, limits.max), detail["dtype"])


def _reals(y: np.ndarray, detail: Any) -> np.ndarray:
    """The numbers that an output stands for."""
    scale, zero = (detail["quantization_parameters"][name] for name in ("scales", "zero_points"))
    return (y.astype(np.float64) - zero[0]) * scale[0] if len(scale) else y.astype(np.float64)


def _snr_db(found: np.ndarray, wanted: np.ndarray) -> float:
    """The ratio of what is wanted to what is wrong."""
    noise = np.square(found - wanted).sum()
    return float(10 * np.log10(max(np.square(wanted).sum(), 1e-30) / noise)) if noise else np.inf
