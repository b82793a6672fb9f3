"""Rules with a second spelling, proven: TensorFlow's ops by other ops, builtins by what targets get instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfuse
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Graph
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.spellings import spellings_of
from jfuse.proof.symbolic.prover import Verdict, prove_symbolically
from tests.lowering.test_spellings import CASES, OPS, spelled

ROW = TensorType((symbol("B"), 4), DType.f32)
ROWS = TensorType((3, 4), DType.f32)  # which jax folds sizes of; the prover leaves the rows open
Function = Callable[..., Any]


class _Ops:
    """TensorFlow's ops by their rules: `tf.Relu(x)`."""

    def __getattr__(self, name: str) -> Function:
        return default_rules().lowers[name].function


tf: Any = _Ops()


def f(number: Any) -> Any:
    return as_atom(np.asarray(number, np.float32))


def i(*numbers: int) -> Any:
    return as_atom(np.asarray(numbers, np.int32))


SPELLED: dict[str, tuple[Function, Function]] = {
    "Sigmoid": (tf.Sigmoid, lambda x: tf.Reciprocal(tf.AddV2(tf.Exp(tf.Neg(x)), f(1)))),
    "Relu": (tf.Relu, lambda x: tf.Maximum(x, f(0))),
    "Relu6": (tf.Relu6, lambda x: tf.Minimum(tf.Maximum(x, f(0)), f(6))),
    "LeakyRelu": (lambda x: tf.LeakyRelu(x, alpha=0.25), lambda x: tf.Maximum(x, tf.Mul(x, f(0.25)))),
    "Softsign": (tf.Softsign, lambda x: tf.RealDiv(x, tf.AddV2(tf.Abs(x), f(1)))),
    "Softplus": (tf.Softplus, lambda x: tf.Log(tf.AddV2(tf.Exp(x), f(1)))),
    "Elu": (tf.Elu, lambda x: tf.SelectV2(tf.Greater(x, f(0)), x, tf.Expm1(x))),
    "Square": (tf.Square, lambda x: tf.Mul(x, x)),
    "SquaredDifference": (lambda x: tf.SquaredDifference(x, f(3)), lambda x: tf.Square(tf.Sub(x, f(3)))),
    "Rsqrt": (tf.Rsqrt, lambda x: tf.Reciprocal(tf.Sqrt(x))),
    "Reciprocal": (tf.Reciprocal, lambda x: tf.RealDiv(f(1), x)),
    "Neg": (tf.Neg, lambda x: tf.Sub(f(0), x)),
    "AddN": (lambda x: tf.AddN(x, x, x), lambda x: tf.Mul(x, f(3))),
    "BiasAdd": (lambda x: tf.BiasAdd(x, f([1, 2, 3, 4])), lambda x: tf.AddV2(x, f([1, 2, 3, 4]))),
    "Expm1": (tf.Expm1, lambda x: tf.Sub(tf.Exp(x), f(1))),
    "Log1p": (tf.Log1p, lambda x: tf.Log(tf.AddV2(x, f(1)))),
    "Erfc": (tf.Erfc, lambda x: tf.Sub(f(1), tf.Erf(x))),
    "Abs": (tf.Abs, lambda x: tf.Maximum(x, tf.Neg(x))),
    "ClipByValue": (lambda x: tf.ClipByValue(x, f(-1), f(2)), lambda x: tf.Minimum(tf.Maximum(x, f(-1)), f(2))),
    "Pow": (lambda x: tf.Pow(x, f(2)), tf.Square),
    "RealDiv": (lambda x: tf.RealDiv(x, f(4)), lambda x: tf.Mul(x, f(0.25))),
    "Mean": (lambda x: tf.Mean(x, i(1)), lambda x: tf.Mul(tf.Sum(x, i(1)), f(0.25))),
    "L2Loss": (
        lambda x: tf.L2Loss(tf.Slice(x, i(0, 0), i(1, 4))),
        lambda x: tf.Mul(tf.Sum(tf.Square(tf.Slice(x, i(0, 0), i(1, 4))), i(0, 1)), f(0.5)),
    ),
    "MatMul": (
        lambda x: tf.MatMul(x, f(np.eye(4)[:, ::-1])),
        lambda x: tf.ReverseV2(x, i(1)),
    ),
    "MatMul, transposed": (
        lambda x: tf.MatMul(x, f(np.arange(8).reshape(2, 4)), transpose_b=True),
        lambda x: tf.MatMul(x, f(np.arange(8).reshape(2, 4).T)),
    ),
    "BatchMatMulV2": (
        lambda x: tf.BatchMatMulV2(x, f(np.arange(8).reshape(4, 2))),
        lambda x: tf.MatMul(x, f(np.arange(8).reshape(4, 2))),
    ),
    "Einsum": (
        lambda x: tf.Einsum(x, f(np.arange(8).reshape(4, 2)), equation="bi,io->bo"),
        lambda x: tf.MatMul(x, f(np.arange(8).reshape(4, 2))),
    ),
    "ExpandDims": (lambda x: tf.ExpandDims(x, i(1)), lambda x: tf.Reshape(x, i(-1, 1, 4))),
    "Transpose": (lambda x: tf.Transpose(tf.Transpose(x, i(1, 0)), i(1, 0)), tf.Identity),
    "Pack": (
        lambda x: tf.Pack(x, x, axis=1),
        lambda x: tf.Reshape(tf.ConcatV2(x, x, as_atom(np.int32(1))), i(-1, 2, 4)),
    ),
    "Tile": (lambda x: tf.Tile(x, i(1, 2)), lambda x: tf.ConcatV2(x, x, as_atom(np.int32(1)))),
    "ReverseV2": (lambda x: tf.ReverseV2(x, i(1)), lambda x: tf.GatherV2(x, i(3, 2, 1, 0), as_atom(np.int32(1)))),
    "Pad": (
        lambda x: tf.Pad(x, as_atom(np.array([[0, 0], [1, 0]], np.int32))),
        lambda x: tf.ConcatV2(tf.Mul(tf.Slice(x, i(0, 0), i(-1, 1)), f(0)), x, as_atom(np.int32(1))),
    ),
    "Split": (
        lambda x: tf.Split(as_atom(np.int32(1)), x, num_split=2)[1],
        lambda x: tf.Slice(x, i(0, 2), i(-1, 2)),
    ),
    "Softmax": (
        tf.Softmax,
        lambda x: tf.RealDiv(tf.Exp(x), tf.Sum(tf.Exp(x), i(1), keep_dims=True)),
    ),
    "LogSoftmax": (tf.LogSoftmax, lambda x: tf.Log(tf.Softmax(x))),
    "Selu": (
        tf.Selu,
        lambda x: tf.Mul(
            f(1.0507009873554805), tf.SelectV2(tf.Greater(x, f(0)), x, tf.Mul(f(1.6732632423543772), tf.Expm1(x)))
        ),
    ),
    "Sinh": (tf.Sinh, lambda x: tf.Mul(f(0.5), tf.Sub(tf.Exp(x), tf.Exp(tf.Neg(x))))),
    "Xdivy": (lambda x: tf.Xdivy(x, f(4)), lambda x: tf.Mul(x, f(0.25))),
    "OnesLike": (tf.OnesLike, lambda x: tf.AddV2(tf.ZerosLike(x), f(1))),
}
_MATRIX = np.arange(8, dtype=np.float32).reshape(4, 2)
BY_JAX: dict[str, tuple[Function, Function]] = {
    "Sigmoid": (tf.Sigmoid, jax.nn.sigmoid),
    "Tanh": (tf.Tanh, jnp.tanh),
    "Relu": (tf.Relu, jax.nn.relu),
    "Relu6": (tf.Relu6, jax.nn.relu6),
    "LeakyRelu": (lambda x: tf.LeakyRelu(x, alpha=0.25), lambda x: jax.nn.leaky_relu(x, 0.25)),
    "Elu": (tf.Elu, jax.nn.elu),
    "Selu": (tf.Selu, jax.nn.selu),
    "Softsign": (tf.Softsign, jax.nn.soft_sign),
    "Softplus": (tf.Softplus, jax.nn.softplus),
    "Softmax": (tf.Softmax, jax.nn.softmax),
    "LogSoftmax": (tf.LogSoftmax, jax.nn.log_softmax),
    "Exp": (tf.Exp, jnp.exp),
    "Expm1": (tf.Expm1, jnp.expm1),
    "Log": (tf.Log, jnp.log),
    "Log1p": (tf.Log1p, jnp.log1p),
    "Sqrt": (tf.Sqrt, jnp.sqrt),
    "Rsqrt": (tf.Rsqrt, jax.lax.rsqrt),
    "Reciprocal": (tf.Reciprocal, jnp.reciprocal),
    "Square": (tf.Square, jnp.square),
    "SquaredDifference": (lambda x: tf.SquaredDifference(x, f(3)), lambda x: jnp.square(x - 3)),
    "Erf": (tf.Erf, jax.lax.erf),
    "Erfc": (tf.Erfc, jax.lax.erfc),
    "Sin": (tf.Sin, jnp.sin),
    "Cos": (tf.Cos, jnp.cos),
    "Tan": (tf.Tan, jnp.tan),
    "Sinh": (tf.Sinh, jnp.sinh),
    "Cosh": (tf.Cosh, jnp.cosh),
    "Atan": (tf.Atan, jnp.arctan),
    "Floor": (tf.Floor, jnp.floor),
    "Ceil": (tf.Ceil, jnp.ceil),
    "Round": (tf.Round, jnp.round),
    "Sign": (tf.Sign, jnp.sign),
    "Neg": (tf.Neg, jnp.negative),
    "Abs": (tf.Abs, jnp.abs),
    "AddV2": (lambda x: tf.AddV2(x, f(2)), lambda x: x + 2),
    "Sub": (lambda x: tf.Sub(x, f(2)), lambda x: x - 2),
    "Mul": (lambda x: tf.Mul(x, f(2)), lambda x: x * 2),
    "RealDiv": (lambda x: tf.RealDiv(x, f(4)), lambda x: x / 4),
    "Pow": (lambda x: tf.Pow(x, f(2)), lambda x: x**2),
    "Maximum": (lambda x: tf.Maximum(x, f(1)), lambda x: jnp.maximum(x, 1)),
    "Minimum": (lambda x: tf.Minimum(x, f(1)), lambda x: jnp.minimum(x, 1)),
    "ClipByValue": (lambda x: tf.ClipByValue(x, f(-1), f(2)), lambda x: jnp.clip(x, -1, 2)),
    "SelectV2": (lambda x: tf.SelectV2(tf.Greater(x, f(1)), x, f(0)), lambda x: jnp.where(x > 1, x, 0)),
    "LessEqual": (lambda x: tf.SelectV2(tf.LessEqual(x, f(1)), f(2), x), lambda x: jnp.where(x <= 1, 2, x)),
    "Equal": (lambda x: tf.SelectV2(tf.Equal(x, f(1)), f(2), x), lambda x: jnp.where(x == 1, 2, x)),
    "LogicalAnd": (
        lambda x: tf.SelectV2(tf.LogicalAnd(tf.Greater(x, f(1)), tf.Less(x, f(2))), x, f(0)),
        lambda x: jnp.where((x > 1) & (x < 2), x, 0),
    ),
    "Mean": (lambda x: tf.Mean(x, i(1)), lambda x: jnp.mean(x, 1)),
    "Sum": (lambda x: tf.Sum(x, i(1), keep_dims=True), lambda x: jnp.sum(x, 1, keepdims=True)),
    "Max": (lambda x: tf.Max(x, i(1)), lambda x: jnp.max(x, 1)),
    "Min": (lambda x: tf.Min(x, i(1)), lambda x: jnp.min(x, 1)),
    "MatMul": (lambda x: tf.MatMul(x, f(np.arange(8).reshape(4, 2))), lambda x: x @ _MATRIX),
    "Einsum": (
        lambda x: tf.Einsum(x, f(np.arange(8).reshape(4, 2)), equation="bi,io->bo"),
        lambda x: jnp.einsum("bi,io->bo", x, _MATRIX),
    ),
    "BiasAdd": (lambda x: tf.BiasAdd(x, f([1, 2, 3, 4])), lambda x: x + np.array([1, 2, 3, 4], np.float32)),
    "ExpandDims": (lambda x: tf.ExpandDims(x, i(1)), lambda x: x[:, None]),
    "Transpose": (lambda x: tf.Transpose(x, i(1, 0)), jnp.transpose),
    "Reshape": (lambda x: tf.Reshape(x, i(-1, 2, 2)), lambda x: jnp.reshape(x, (-1, 2, 2))),
    "ConcatV2": (lambda x: tf.ConcatV2(x, x, as_atom(np.int32(1))), lambda x: jnp.concatenate([x, x], 1)),
    "Pack": (lambda x: tf.Pack(x, x, axis=1), lambda x: jnp.stack([x, x], 1)),
    "Tile": (lambda x: tf.Tile(x, i(1, 2)), lambda x: jnp.tile(x, (1, 2))),
    "ReverseV2": (lambda x: tf.ReverseV2(x, i(1)), lambda x: jnp.flip(x, 1)),
    "Pad": (lambda x: tf.Pad(x, as_atom(np.array([[0, 0], [1, 0]], np.int32))), lambda x: jnp.pad(x, ((0, 0), (1, 0)))),
    "Split": (lambda x: tf.Split(as_atom(np.int32(1)), x, num_split=2)[1], lambda x: jnp.split(x, 2, 1)[1]),
    "Slice": (lambda x: tf.Slice(x, i(0, 1), i(-1, 2)), lambda x: x[:, 1:3]),
    "GatherV2": (
        lambda x: tf.GatherV2(x, i(3, 0), as_atom(np.int32(1))),
        lambda x: jnp.take(x, np.array([3, 0], np.int32), axis=1),
    ),
    "OnesLike": (tf.OnesLike, jnp.ones_like),
    "Cast": (lambda x: tf.Cast(tf.Greater(x, f(0)), DstT=DType.f32), lambda x: (x > 0).astype(np.float32)),
}
"""TensorFlow's ops by their rules, and jax's functions, which the frontend reads as other ops."""
UNPROVEN_BY_JAX: dict[str, str] = {
    **dict.fromkeys(
        ("Elu", "Selu"), "jax's expm1 becomes tanh(x / 2) * (exp(x) + 1), an identity that the prover lacks"
    ),
    "Softplus": "an identity of exp and log: both avoid overflow, each in its own way",
}


def from_jax(function: Function) -> Graph:
    """A jax function of three rows, as the frontend reads it."""
    return jfuse.load(function, [jax.ShapeDtypeStruct(ROWS.shape, np.float32)]).program.signatures[0].graph


UNPROVEN: dict[str, str] = {
    "Softplus": "an identity of exp and log that the prover lacks: the rule avoids overflow",
    "Softmax": "an identity of exp: the kernel takes off the greatest of a row",
    "LogSoftmax": "an identity of exp and log",
    "Sinh": "the hyperbolic functions are no exponentials to the prover",
    **dict.fromkeys(("Expm1", "Log1p", "Elu", "Selu"), "the rule computes small values by another formula"),
    "Xdivy": "0 where the dividend is 0, which is a case of its own",
}
"""The ops whose second spelling is not proven, with the reason."""


def verdict(one: Function, other: Function) -> Verdict:
    return verdict_of(*(trace_graph(function, [ROW]) for function in (one, other)))


def verdict_of(body: Graph, replacement: Graph) -> Verdict:
    exact = prove_symbolically(body, replacement)
    return exact if exact.is_proven else prove_symbolically(body, replacement, rounded=True)


def test_ops_of_tensorflow_are_proven_by_other_ops() -> None:
    stopped = {name: v.stopped for name, pair in SPELLED.items() if not (v := verdict(*pair)).is_proven}
    print(f"{len(SPELLED) - len(stopped)} of {len(SPELLED)} rules of TensorFlow ops are proven by others")
    print(*(f"{name}: {UNPROVEN.get(name, '')} ({why})" for name, why in stopped.items()), sep="\n")
    assert stopped.keys() == UNPROVEN.keys()


def test_ops_of_tensorflow_are_proven_by_functions_of_jax() -> None:
    stopped: dict[str, Any] = {}
    for name, (rule, function) in BY_JAX.items():
        found = verdict_of(trace_graph(rule, [ROWS]), from_jax(function))
        stopped |= {} if found.is_proven else {name: found.stopped}
    print(f"{len(BY_JAX) - len(stopped)} of {len(BY_JAX)} rules of TensorFlow ops are proven by functions of jax")
    print(*(f"{name}: {UNPROVEN_BY_JAX.get(name, '')} ({why})" for name, why in stopped.items()), sep="\n")
    assert stopped.keys() == UNPROVEN_BY_JAX.keys()


WRONG_BY_JAX: dict[str, tuple[Function, Function]] = {
    "Elu of twice x": (tf.Elu, lambda x: jax.nn.elu(2 * x)),
    "Round to even": (tf.Round, lambda x: jnp.floor(x + 0.5)),
    "Relu6 at 7": (tf.Relu6, lambda x: jnp.clip(x, 0, 7)),
    "Sign without 0": (tf.Sign, lambda x: jnp.where(x >= 0, 1.0, -1.0)),
    "Tile of rows": (lambda x: tf.Tile(x, i(1, 2)), lambda x: jnp.repeat(x, 2, axis=1)),
    "Mean over three": (lambda x: tf.Mean(x, i(1)), lambda x: jnp.sum(x, 1) / 3),
}


@pytest.mark.parametrize("name", WRONG_BY_JAX)
def test_another_function_of_jax_is_not_proven(name: str) -> None:
    rule, function = WRONG_BY_JAX[name]
    assert not verdict_of(trace_graph(rule, [ROWS]), from_jax(function)).is_proven


WRONG: dict[str, tuple[Function, Function]] = {
    "Sigmoid of -x": (tf.Sigmoid, lambda x: tf.Reciprocal(tf.AddV2(tf.Exp(x), f(1)))),
    "Relu6 at 5": (tf.Relu6, lambda x: tf.Minimum(tf.Maximum(x, f(0)), f(5))),
    "LeakyRelu by a minimum": (
        lambda x: tf.LeakyRelu(x, alpha=0.25),
        lambda x: tf.Minimum(x, tf.Mul(x, f(0.25))),
    ),
    "Softsign without its absolute value": (tf.Softsign, lambda x: tf.RealDiv(x, tf.AddV2(x, f(1)))),
    "Elu without its 1": (tf.Elu, lambda x: tf.SelectV2(tf.Greater(x, f(0)), x, tf.Exp(x))),
    "Rsqrt of a square": (tf.Rsqrt, lambda x: tf.Reciprocal(tf.Sqrt(tf.Square(x)))),
    "Mean of five": (lambda x: tf.Mean(x, i(1)), lambda x: tf.Mul(tf.Sum(x, i(1)), f(0.2))),
    "MatMul not transposed": (
        lambda x: tf.MatMul(x, f(np.arange(16).reshape(4, 4)), transpose_b=True),
        lambda x: tf.MatMul(x, f(np.arange(16).reshape(4, 4))),
    ),
    "ReverseV2 of rows": (lambda x: tf.ReverseV2(x, i(1)), lambda x: tf.ReverseV2(x, i(0))),
    "Split one off": (
        lambda x: tf.Split(as_atom(np.int32(1)), x, num_split=2)[1],
        lambda x: tf.Slice(x, i(0, 1), i(-1, 2)),
    ),
    "Tile of columns": (lambda x: tf.Tile(x, i(1, 2)), lambda x: tf.Reshape(tf.Pack(x, x, axis=2), i(-1, 8))),
    "Round by Floor": (tf.Round, lambda x: tf.Floor(tf.AddV2(x, f(0.5)))),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_not_proven(name: str) -> None:
    assert not verdict(*WRONG[name]).is_proven


_REASONS = {
    "not known to the prover": "a primitive without a rule",
    "normal forms differ": "an identity that the prover lacks",
    "of integers": "sums of integers wrap",
    "index that is computed": "places that are known at run time only",
    "no real number": "infinities",
    "a slice of": "a slice of an axis that is open",
}
_LEAST = 0.7  # of the spellings that targets get


def test_spellings_for_targets_are_proven_or_have_a_reason() -> None:
    proven, stopped = Counter[str](), Counter[str]()
    for builtin, rows in CASES.items():
        for function, types in rows:
            graph = trace_graph(function, [TensorType(s, d) for s, d in types])
            for spelling in spellings_of(OPS[builtin], "target"):
                other = spelled(spelling, graph)
                if other is None:
                    continue
                found = prove_symbolically(graph, other)
                found = found if found.is_proven else prove_symbolically(graph, other, rounded=True)
                if found.is_proven:
                    proven[builtin] += 1
                else:
                    stopped[
                        next((why for words, why in _REASONS.items() if words in found.stopped), found.stopped)
                    ] += 1
    total = proven.total() + stopped.total()
    print(f"{proven.total()} of {total} spellings for targets are proven")
    print(*(f"{count:4d} {reason}" for reason, count in stopped.most_common()), sep="\n")
    assert proven.total() >= _LEAST * total
