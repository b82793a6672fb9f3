"""Small models with weights of their own, as graphs before quantization, and what measures a quantized file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn, Program, Signature
from jfuse.ir.quantization import Quantization
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.passes.context import Calibrate, Context
from jfuse.passes.options import Forms
from jfuse.passes.pipeline import PIPELINE, around_quantization, run_pipeline
from jfuse.quantization.calibrate import calibrate
from jfuse.quantization.recipe import Recipe
from jfuse.running.interpreter import LiteRt

KEY = "call"


def drawn(*shape: int, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    """Normal numbers, the same for the same arguments: f32[shape]."""
    return (np.random.default_rng([*shape, seed]).standard_normal(shape) * scale).astype(np.float32)


def program_of(function: Callable[..., Any], *types: TensorType) -> Program:
    """The program of a function of ops."""
    graph = trace_graph(function, types)
    inputs = tuple(f"x{i}" for i in range(len(graph.inputs)))
    outputs = tuple(f"y{i}" for i in range(len(graph.outputs)))
    return Program((Signature(KEY, graph, inputs, outputs),))


def quantized(program: Program, recipe: Recipe | None, **context: Any) -> Model:
    """What the stage `quantize` and those after it make of a program, with all types derived again after each.

    Fused operators stay what they are, unless the context says otherwise.
    """
    ctx = Context(recipe=recipe, **{"forms": Forms(prefer="fused"), **context})
    done = run_pipeline(program, ctx, around_quantization(PIPELINE)[1], check_types=True)
    return Model(done, report=ctx.report)


def calibrated(program: Program, recipe: Recipe, calls: Sequence[Mapping[str, np.ndarray]]) -> Model:
    """What the stage and those after it make of a program with these calls as calibration data."""
    return quantized(program, recipe, calibrate=calibrator(calls))


def calibrator(calls: Sequence[Mapping[str, np.ndarray]]) -> Calibrate:
    """What calibrates a program with these calls."""
    return lambda program, observed, histograms, moments: calibrate(
        program, observed, list(calls), histograms=histograms, moments=moments
    )


def eqns_of(program: Program) -> list[Eqn]:
    """All equations, those of bodies included."""
    return [eqn for graph in program.graphs() for eqn in all_eqns(graph)]


def names_of(program: Program) -> list[str]:
    """The names of their ops."""
    return [eqn.op.name for eqn in eqns_of(program)]


def quantization(atom: Any) -> Quantization:
    """What the integers of an operand or result stand for."""
    found: Quantization | None = atom.type.quantization
    assert found is not None
    return found


def snr_db(found: np.ndarray, wanted: np.ndarray) -> float:
    """10 log10 of the power of what is wanted over that of the difference."""
    noise = float(np.square(found.astype(np.float64) - wanted).sum())
    return float(10 * np.log10(float(np.square(wanted.astype(np.float64)).sum()) / noise)) if noise else np.inf


def in_litert(model: Model, calls: Sequence[Mapping[str, np.ndarray]], *, delegates: bool) -> list[np.ndarray]:
    """The first output of each call, in one interpreter."""
    runner = LiteRt(model.to_bytes(), delegates=delegates)
    return [runner.run(KEY, call)["y0"] for call in calls]


def mlp(x: Any) -> Any:
    """A product with bias and activation, one without bias, and one too small to be worth fewer bits."""
    h = ops.fully_connected(x, drawn(64, 32), drawn(64), fused_activation_function="RELU")
    h = ops.fully_connected(h, drawn(48, 64), None)
    return ops.fully_connected(h, drawn(16, 48), drawn(16))
