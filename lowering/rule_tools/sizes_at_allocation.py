"""Values that LiteRT has when it allocates tensors: constants, shapes, and results of kernels that run then.

A result that such a value sizes has its memory planned with all others. One that another value sizes is planned during
the invoke: XNNPACK takes nothing of a graph that has one, and the states of recurrent ops after it get old sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from jfuse.ir.graph import Atom, Eqn, Op, Var


def known_at_allocation(atom: Atom | None, producer: Callable[[Var], Eqn | None], *, also: Collection[Op] = ()) -> bool:
    """Whether a value is there then.   producer: of a Var; also: ops besides those whose kernels compute it then"""
    seen: set[Var] = set()
    pending = [atom]
    while pending:
        var = pending.pop()
        if not isinstance(var, Var) or var in seen:
            continue
        seen.add(var)
        eqn = producer(var)
        if eqn is None or not (eqn.op.at_allocation or eqn.op in also):
            return False
        pending += [a for i, a in enumerate(eqn.inputs) if not eqn.op.operand_at(i).shape_only]
    return True
