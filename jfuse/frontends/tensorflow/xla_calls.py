"""Calls of StableHLO in TensorFlow graphs, as jax2tf writes a jax function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from jfuse.base.errors import ImportFailed
from jfuse.frontends.jaxprs.walker import JaxWalker
from jfuse.frontends.stablehlo.module import Module
from jfuse.frontends.tensorflow.graph import Walker, handles
from jfuse.frontends.tensorflow.variables import Resource
from jfuse.ir.graph import Const, Var
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rule_tools.place import sizes_read_from
from jfuse.lowering.rule_tools.query import type_of


@handles("XlaCallModule")
def _module(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    functions = [f.name for f in node.attr["function_list"].list.func]
    if functions or any(node.attr["has_token_input_output"].list.b) or node.attr["has_token_input_output"].b:
        raise ImportFailed(
            "a StableHLO module calls TensorFlow back, or has effects",
            where=node.name,
            found=", ".join(functions) or None,
            remedy="jax2tf.convert without jax2tf.call_tf, or give jfuse the jax function itself",
        )
    values = [walker.variables.value(o) if isinstance(o, Resource) else o for o in operands]
    arguments = [v.array if isinstance(v, Const) else v for v in values]
    specs = [jax.ShapeDtypeStruct(t.shape, t.dtype.numpy) for t in map(type_of, arguments)]
    platforms = [s.decode().lower() for s in node.attr["platforms"].list.s]
    module = Module(node.attr["module"].s, platforms)
    traced = jax.make_jaxpr(module)(*specs)
    with sizes_read_from([v for v in arguments if isinstance(v, Var)]):
        return JaxWalker(default_rules().lowers_jax, walker.stack, nans=walker.nans).results(traced, arguments)
