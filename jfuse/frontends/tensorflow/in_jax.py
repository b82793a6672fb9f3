"""TensorFlow ops as functions of jax arrays, with the attributes of their definitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jfuse.base.errors import LowerError
from jfuse.frontends.jaxprs.in_jax import computed_in_jax
from jfuse.ir.graph import Const, Var
from jfuse.lowering.rule_tools.place import sizes_read_from
from jfuse.lowering.rules import LowerRule

IN_JAX: dict[str, LowerRule] = {}
"""Rules for ops that have none in `lowering/ops`."""


def _computes(name: str) -> Callable[[Callable[..., Any]], None]:
    def register(function: Callable[..., Any]) -> None:
        @wraps(function)
        def lower(*operands: Any, **attributes: Any) -> list[Any]:
            arguments = [o.array if isinstance(o, Const) else o for o in operands]
            with sizes_read_from([o for o in arguments if isinstance(o, Var)]):
                return computed_in_jax(function, arguments, attributes)

        IN_JAX[name] = LowerRule((name,), lower)

    return register


@_computes("Qr")
def _qr(x: Any, *, full_matrices: bool = False) -> Any:
    return jnp.linalg.qr(x, "complete" if full_matrices else "reduced")


@_computes("SelfAdjointEigV2")
def _eigh(x: Any, *, compute_v: bool = True) -> Any:
    vectors, values = lax.linalg.eigh(x, symmetrize_input=False)
    return values, vectors if compute_v else jnp.zeros(0, x.dtype)


@_computes("Svd")
def _svd(x: Any, *, compute_uv: bool = True, full_matrices: bool = False) -> Any:
    if not compute_uv:
        return jnp.linalg.svd(x, compute_uv=False), jnp.zeros(0, x.dtype), jnp.zeros(0, x.dtype)
    left, values, right = jnp.linalg.svd(x, full_matrices)
    return values, left, right.mT


@_computes("Lu")
def _lu(x: Any, *, output_idx_type: Any = None) -> Any:
    factors, _, order = lax.linalg.lu(x)
    return factors, order


@_computes("CTCLoss")
def _ctc_loss(
    inputs: Any,
    indices: Any,
    values: Any,
    lengths: Any,
    *,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
) -> Any:
    """The losses, and the gradients of their sum.

    inputs: f[t,b,classes], the last class is the blank; indices: i64[n,2]; values: i32[n]; lengths: i32[b]
    """
    if preprocess_collapse_repeated or not ctc_merge_repeated:
        raise LowerError("a CTC loss of labels that are collapsed or steps that are not merged", remedy="the defaults")
    steps, batch, classes = inputs.shape
    values = values.at[jnp.arange(indices.shape[0])].get(mode="promise_in_bounds")  # both are n, under two names
    rows = indices[:, 0].astype(jnp.int32)
    places = (rows, 2 * indices[:, 1].astype(jnp.int32) + 1)
    labels = jnp.full((batch, 2 * steps + 1), classes - 1, jnp.int32).at[places].set(values, mode="drop")
    counts = jnp.zeros(batch, jnp.int32).at[rows].add(1, mode="drop")
    failed = 0.0 if ignore_longer_outputs_than_inputs else jnp.inf

    def losses(inputs: Any) -> Any:
        found = _ctc_losses(jax.nn.log_softmax(inputs), labels, counts, lengths)
        return jnp.where(found < -_IMPOSSIBLE / 2, found, failed)

    return losses(inputs), jax.grad(lambda x: jnp.sum(losses(x)))(inputs)


def _ctc_losses(scores: Any, labels: Any, counts: Any, lengths: Any) -> Any:
    """The forward algorithm of Graves et al., Connectionist Temporal Classification (2006), section 4.1.

    scores: f[t,b,classes]; labels: i32[b,2 * t + 1], with blanks between and behind; counts, lengths: i32[b] -> f[b]
    After step k `paths` has the logarithm of the probability of all paths of k steps that end at each label.
    """
    blank = scores.shape[-1] - 1
    skips = (labels != blank) & (labels != _moved(labels, 2, blank))

    def step(paths: Any, row: Any) -> Any:
        scores, number = row
        two_before = jnp.where(skips, _moved(paths, 2, _IMPOSSIBLE), _IMPOSSIBLE)
        reached = jnp.logaddexp(jnp.logaddexp(paths, _moved(paths, 1, _IMPOSSIBLE)), two_before)
        after = reached + jnp.take_along_axis(scores, labels, -1)
        return jnp.where((number < lengths)[:, None], after, paths), None

    is_first = jnp.arange(labels.shape[1]) < 2
    paths = jnp.where(is_first, jnp.take_along_axis(scores[0], labels, -1), _IMPOSSIBLE)
    paths, _ = lax.scan(step, paths, (scores[1:], jnp.arange(1, scores.shape[0])))
    ends = jnp.maximum(2 * counts[:, None] + jnp.array([0, -1]), 0)
    last = jnp.take_along_axis(paths, jnp.minimum(ends, labels.shape[1] - 1), -1)
    return -jnp.logaddexp(last[:, 0], jnp.where(counts > 0, last[:, 1], _IMPOSSIBLE))


_IMPOSSIBLE = -1e30  # the logarithm of no probability, with finite differences


def _moved(x: Any, count: int, filler: float) -> Any:
    """Columns moved to the right.   [b, n] -> [b, n]"""
    return jnp.pad(x, ((0, 0), (count, 0)), constant_values=filler)[:, : x.shape[1]]
