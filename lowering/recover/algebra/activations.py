"""Finds the activations of fused recurrent ops in the expressions of a step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jfuse.lowering.recover.algebra.expressions import (
    Activation,
    Clamp,
    Expr,
    Terms,
    canonical,
    divided,
    expression,
    scaled_leaf,
    terms_of,
)

CLAMPS = {(0.0, np.inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1"}
ODD = ("TANH", "RELU_N1_TO_1")  # act(-z) = -act(z)


def activation_of(expr: Expr) -> Activation | None:
    """An expression as an activation that fused recurrent ops have, under their name for it."""
    if isinstance(expr, Activation) and expr.function == "tanh":
        return Activation("TANH", expr.scale, expr.operand)
    if isinstance(expr, Clamp) and (expr.low, expr.high) in CLAMPS:
        scale, leaf = scaled_leaf(expr.operand)
        return Activation(CLAMPS[expr.low, expr.high], scale if leaf else 1.0, leaf or expr.operand)
    return None


def activated(terms: Terms) -> Iterator[tuple[Activation, Terms]]:
    """Each activation that is a factor of all terms, as the op names it, and the terms without it."""
    for factor in dict.fromkeys(f for monomial in terms for f, _ in monomial):
        named = activation_of(factor)
        rest, others = divided(terms, factor)
        if named is not None and not others:
            yield named, rest


def sigmoid_of(terms: Terms) -> Activation | None:
    """Terms as one sigmoid, which they may be in sum: 1 - sigmoid(z) is one of -z."""
    activation = canonical(expression(terms))
    return activation if isinstance(activation, Activation) and activation.function == "sigmoid" else None


def entering_of(expr: Expr) -> Activation | None:
    """Split an output into activation and operand: "NONE" for an affine output; None for other outputs."""
    scale, leaf = scaled_leaf(expr)
    if leaf is not None:
        return Activation("NONE", scale, leaf)
    terms = terms_of(expr)
    if len(terms) != 1:
        return None
    ((monomial, factor),) = terms.items()
    ((value, power),) = monomial if len(monomial) == 1 else ((None, 0),)
    activation = activation_of(value) if power == 1 and value is not None else None
    if activation is None or not (factor == 1 or (factor == -1 and activation.function in ODD)):
        return None
    return Activation(activation.function, factor * activation.scale, activation.operand)
