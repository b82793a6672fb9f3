"""Rules with a second spelling, proven: TensorFlow's ops by other ops, builtins by what targets get instead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.dims import symbol
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.spellings import spellings_of
from jfuse.proof.symbolic.prover import Verdict, prove_symbolically
from tests.lowering.test_spellings import CASES, OPS, spelled

ROW = TensorType((symbol("B"), 4), DType.f32)
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
UNPROVEN: dict[str, str] = {
    "Softplus": "an identity of exp and log that the prover lacks: the rule avoids overflow",
    "Softmax": "an identity of exp: the kernel takes off the greatest of a row",
    "LogSoftmax": "an identity of exp and log",
    "Sinh": "the hyperbolic functions are no exponentials to the prover",
    **dict.fromkeys(("Expm1", "Log1p", "Elu", "Selu"), "the rule computes small values by another formula"),
    "Pack": "stack is a primitive without a rule",
    "Xdivy": "0 where the dividend is 0, which is a case of its own",
}
"""The ops whose second spelling is not proven, with the reason."""


def verdict(one: Function, other: Function) -> Verdict:
    body, replacement = (trace_graph(function, [ROW]) for function in (one, other))
    exact = prove_symbolically(body, replacement)
    return exact if exact.is_proven else prove_symbolically(body, replacement, rounded=True)


def test_ops_of_tensorflow_are_proven_by_other_ops() -> None:
    stopped = {name: v.stopped for name, pair in SPELLED.items() if not (v := verdict(*pair)).is_proven}
    print(f"{len(SPELLED) - len(stopped)} of {len(SPELLED)} rules of TensorFlow ops are proven by others")
    print(*(f"{name}: {UNPROVEN.get(name, '')} ({why})" for name, why in stopped.items()), sep="\n")
    assert stopped.keys() == UNPROVEN.keys()


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
