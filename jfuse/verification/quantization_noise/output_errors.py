"""Corrects the mean error of a quantized model's outputs in the biases of the products that make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Signature, Var
from jfuse.ir.states import distinct, with_signatures
from jfuse.ir.walk import producers, use_counts
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.model import Model
from jfuse.passes.quantize.forms import facts, rule_of
from jfuse.passes.quantize.parameters import real_ends
from jfuse.quantization.data import Item
from jfuse.quantization.recipe import Recipe
from jfuse.verification.file_answers import InFile, Start, answers, in_litert

Place = tuple[str, int]
"""An output: the key of the signature, and its position."""
Products = Mapping[str, Mapping[int, Eqn]]
"""The product behind an output, by the key of the signature and the position of the output."""
Corrections = Mapping[Place, tuple[Eqn, np.ndarray]]
"""The product behind an output, and the mean error to subtract from its bias: f64[channels]."""


@dataclass(frozen=True)
class ProductErrors:
    """The errors of the product behind an output.

    sums: of the errors in each call; counts: of the numbers that do not saturate: f64[calls, channels] each.
    """

    eqn: Eqn
    sums: np.ndarray
    counts: np.ndarray

    def mean(self, calls: slice) -> np.ndarray:
        """The mean error to subtract from the bias, by some of the calls: f64[channels]."""
        sums, counts = self.sums[calls], self.counts[calls]
        return _mean_error(sums / np.maximum(counts.mean(0), 1 / len(counts)))  # parts of one mean over all numbers


def product_errors(
    program: Program, floats: Program, recipe: Recipe, start: Start, items: Sequence[Item]
) -> dict[Place, ProductErrors]:
    """Measure the errors of the products behind outputs.

    floats: the same in floats. start: runs the file of the quantized program. Of each output the last product with a
    constant bias counts, where its rule says `bias_correction` and what lies behind it reads nothing else. Both files
    run on all calls. The results of both count as the integers of the product can tell them: what both have beyond the
    ends of these saturates, as it should, and is left out. Less of a mean is taken, the less it stands out from chance.
    What weights in few bits do on average is corrected before, for each product. This is what operators
    that are not linear, as a maximum, make of noise without a mean.
    Raises VerifyFailed where a runtime does not take one of the files.
    Source: "Data-Free Quantization Through Weight Equalization and Bias Correction" (Nagel et al., 2019), appendix D
    """
    ours, theirs = _products_of_both(program, floats, recipe)
    if not any(ours.values()):
        return {}
    return _errors(_ending_at(program, ours), _ending_at(floats, theirs), ours, start, items)


def corrected(program: Program, corrections: Corrections) -> Program:
    """The quantized program with other biases."""
    return with_signatures(program, partial(_corrected, corrections=corrections))


def _products_of_both(program: Program, floats: Program, recipe: Recipe) -> tuple[Products, Products]:
    """The products of both programs: those whose bias is to be corrected, and that stand in both behind an output."""
    ours: dict[str, dict[int, Eqn]] = {}
    theirs: dict[str, dict[int, Eqn]] = {}
    graphs = {s.key: s.graph for s in floats.signatures}
    for signature in distinct(program):
        count = len(signature.output_names) - len(signature.exposed)
        in_floats = _products(graphs[signature.key], count)
        for place, eqn in _products(signature.graph, count).items():
            if _is_alike(eqn, in_floats.get(place)) and rule_of(eqn, recipe).bias_correction:
                ours.setdefault(signature.key, {})[place] = eqn
                theirs.setdefault(signature.key, {})[place] = in_floats[place]
    return ours, theirs


def _is_alike(one: Eqn, other: Eqn | None) -> bool:
    return other is not None and one.op is other.op and one.outputs[0].shape == other.outputs[0].shape


def _products(graph: Graph, count: int) -> dict[int, Eqn]:
    """The product behind each of the first outputs that has one."""
    made, read = producers(graph), use_counts(graph)
    found = ((place, _product(atom, made, read)) for place, atom in enumerate(graph.outputs[:count]))
    return {place: eqn for place, eqn in found if eqn is not None}


def _product(atom: Atom, made: Mapping[Var, Eqn], read: Mapping[Var, int]) -> Eqn | None:
    """The product that a value is made of, by operators that read nothing else and that nothing else reads."""
    while isinstance(atom, Var) and atom in made and read[atom] == 1:
        eqn = made[atom]
        if _bias_place(eqn) is not None:
            return eqn if _bias(eqn) is not None else None
        operands = [a for a in eqn.inputs if isinstance(a, Var)]
        if len(operands) != 1 or len(eqn.outputs) != 1 or eqn.bodies:
            return None
        atom = operands[0]
    return None


def _bias_place(eqn: Eqn) -> int | None:
    integers = facts(eqn).integers
    return None if integers is None else integers.bias


def _bias(eqn: Eqn) -> Const | None:
    """The constant that is added to a product last, for each channel; None where that is something else."""
    place = _bias_place(eqn)
    bias = eqn.inputs[place] if place is not None and place < len(eqn.inputs) else None
    is_last = eqn.params.get("fused_activation_function", "NONE") == "NONE"
    is_by_channel = isinstance(bias, Const) and bias.array.shape == eqn.outputs[0].shape[-1:]
    return bias if is_last and is_by_channel and isinstance(bias, Const) else None


def _ending_at(program: Program, products: Products) -> Program:
    """The program with these products in place of the outputs behind them."""

    def changed(signature: Signature) -> Signature:
        outputs = list(signature.graph.outputs)
        for place, eqn in products.get(signature.key, {}).items():
            (outputs[place],) = eqn.outputs
        return replace(signature, graph=replace(signature.graph, outputs=tuple(outputs)))

    return with_signatures(program, changed)


def _errors(
    program: Program, floats: Program, products: Products, start: Start, items: Sequence[Item]
) -> dict[Place, ProductErrors]:
    """The errors of products in each call.   program, floats: end at the products"""
    keys = {s.key: d.key for d in distinct(program) for s in program.signatures if s.graph is d.graph}
    names = {s.key: s.output_names for s in program.signatures}
    sums: dict[Place, list[tuple[np.ndarray, np.ndarray]]] = {}
    found, wanted = (answers(InFile(Model(p), run), items) for p, run in ((program, start), (floats, in_litert)))
    for (key, outputs), (_, reference) in zip(found, wanted, strict=True):
        for place, eqn in products.get(keys[key], {}).items():
            name = names[key][place]
            counted = _counted(outputs[name], reference[name], _ends(eqn.outputs[0]))
            sums.setdefault((keys[key], place), []).append(counted)
    return {
        (key, i): ProductErrors(products[key][i], *map(np.stack, zip(*calls, strict=True)))
        for (key, i), calls in sums.items()
    }


def _ends(var: Var) -> tuple[float, float]:
    """The numbers beyond which a value saturates."""
    if not is_quantized(var.type) or var.type.quantization is None:
        return -np.inf, np.inf
    return real_ends(var.type.dtype, var.type.quantization)


def _counted(found: np.ndarray, wanted: np.ndarray, ends: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """The sum of errors, and how many numbers do not saturate in both: f64[channels] each."""
    ours, theirs = (np.clip(a.astype(np.float64).reshape(-1, a.shape[-1]), *ends) for a in (found, wanted))
    saturates = (ours == theirs) & np.isin(theirs, ends)
    return (ours - theirs).sum(0), np.sum(~saturates, axis=0).astype(np.float64)


def _mean_error(errors: np.ndarray) -> np.ndarray:
    """The mean error to subtract from a bias: f64[channels].   errors: f64[calls, channels]

    The mean, times 1 less the share of its square that the variation over the calls explains.
    """
    mean = errors.mean(0)
    if len(errors) < 2 or not np.isfinite(mean).all():
        return np.zeros_like(mean)
    by_chance = float(errors.var(0, ddof=1).sum()) / len(errors)
    square = float(np.square(mean).sum())
    return np.asarray(mean * max(0.0, 1 - by_chance / square) if square else mean)


def _corrected(signature: Signature, corrections: Corrections) -> Signature:
    changed = {eqn: _with_bias(eqn, error) for (key, _), (eqn, error) in corrections.items() if key == signature.key}
    eqns = tuple(changed.get(eqn, eqn) for eqn in signature.graph.eqns)
    return replace(signature, graph=replace(signature.graph, eqns=eqns)) if changed else signature


def _with_bias(eqn: Eqn, error: np.ndarray) -> Eqn:
    """The product with a bias that is less by the error."""
    bias, place = _bias(eqn), _bias_place(eqn)
    assert bias is not None, "one of `_products`"
    assert place is not None, "it has a bias"
    array = bias.array.astype(np.float64)
    if bias.quantization is None:
        array = array - error
    else:
        last = np.iinfo(bias.array.dtype).max
        array = np.clip(np.rint(array - error / np.array(bias.quantization.scale)), -last, last)
    inputs = list(eqn.inputs)
    inputs[place] = Const(array.astype(bias.array.dtype), bias.name, bias.quantization)
    return replace(eqn, inputs=tuple(inputs))
