"""Products of operands that the source itself rounds to 8 bits as it runs, as kernels of integers do anyway.

Of (round(x * e) @ w) / (s * e), with e = 127 / max|x| for each row, x @ (w / s) is left, whose weights are the same
integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.ir.graph import Const, Eqn, Graph, Var
from jfuse.ir.walk import producers, users, with_bodies
from jfuse.kernels import ops
from jfuse.lowering.scaled_products import ScaledProduct, scaled_product
from jfuse.passes.quantize.forms import rule_of
from jfuse.passes.rewrite import Rewriting
from jfuse.quantization.recipe import Recipe

_ROUND_THEM = ("integer", "dynamic")  # modes whose kernels round the operand


def without_dynamic_scales(graph: Graph, recipe: Recipe) -> Graph:
    """The graph with plain products where the recipe lets a kernel round the operand, bodies included."""
    made_by, readers = producers(graph), users(graph)
    products: dict[Var, ScaledProduct] = {}
    quotients: dict[Var, ScaledProduct] = {}
    for eqn in graph.eqns:
        scaled = scaled_product(eqn, made_by)
        if scaled is None or rule_of(scaled.product, recipe).mode not in _ROUND_THEM:
            continue
        (total,) = scaled.product.outputs
        if total not in graph.outputs and sum(_reads_numbers(r, total) for r in readers[total]) == 1:
            products[total] = quotients[eqn.outputs[0]] = scaled

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        var = eqn.outputs[0] if eqn.outputs else None
        if var in products:
            scaled = products[var]
            value = _moved(scaled.before, rewriting.current(scaled.operand))
            params = {**eqn.params, "fused_activation_function": scaled.activation}
            return [ops.fully_connected(value, scaled.weights, None, **params)]
        if var in quotients:
            scaled = quotients[var]
            return [_moved(scaled.behind, scaled.product.outputs[0])]
        return None

    rewriting = Rewriting(with_bodies(graph, lambda body: without_dynamic_scales(body, recipe)))
    return rewriting.run(visit)


def _moved(steps: Sequence[Eqn], value: Any) -> Any:
    for step in steps:
        others = (a.array if isinstance(a, Const) else a for a in step.inputs[1:])
        (value,) = step.op.run([value, *others], step.params, ())
    return value


def _reads_numbers(eqn: Eqn, var: Var) -> bool:
    return any(atom is var and not eqn.op.operand_at(i).shape_only for i, atom in enumerate(eqn.inputs))
