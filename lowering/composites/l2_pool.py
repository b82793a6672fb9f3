"""The pool without a TensorFlow op, as a composite: l2_pool_2d."""

from __future__ import annotations

from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import rank, type_of
from jfuse.lowering.rule_tools.rule_context import site
from jfuse.lowering.rules import fuses, need


@fuses("l2_pool_2d", "L2_POOL_2D", makes=("L2_POOL_2D",))
def fuse_l2_pool_2d(x: Array) -> Array:
    """sqrt(avg_pool(square(x))), with the windows of the average pool in the body -> L2_POOL_2D.   x: f[b,h,w,c]"""
    pools = [eqn for eqn in all_eqns(site().body) if eqn.op is ops.average_pool_2d]
    need(len(pools) == 1, "no_pool", want="tf.sqrt(tf.nn.avg_pool(tf.square(x), …))", got=f"{len(pools)} average pools")
    need(rank(x) == 4, "no_pool", want="an image f32[b,h,w,c]", got=str(type_of(x)))
    return ops.l2_pool_2d(x, **pools[0].params)
