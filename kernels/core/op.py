"""`tfl` turns a Python function into an op: the signature declares operands and options, the body types and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Literal, get_type_hints

from jfuse.base.errors import RuleError
from jfuse.ir.graph import Eqn, Moves, Operand, Product, Var
from jfuse.ir.registry import register_op
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.operand import (
    Amount,
    Array,
    Axes,
    Divisor,
    Measure,
    Paddings,
    Segments,
    ShapeOnly,
    Sizes,
    Static,
    declared_operand,
    namespace,
)
from jfuse.kernels.core.parameters import Parameters
from jfuse.kernels.core.record import record
from jfuse.kernels.core.static_values import static_value
from jfuse.kernels.core.tfl_op import TflOp

# What a module with kernels needs to declare and ask about them.
__all__ = (
    "Amount",
    "Array",
    "Axes",
    "Divisor",
    "Measure",
    "Operand",
    "Paddings",
    "Segments",
    "ShapeOnly",
    "Sizes",
    "Static",
    "TflOp",
    "builtin_ops",
    "depends_on_data",
    "draws",
    "namespace",
    "new_states",
    "record",
    "static_value",
    "tfl",
)

_OPS: dict[str, TflOp] = {}


def tfl(
    builtin: str,
    *,
    updates: Mapping[str, int] | None = None,
    repeats: Mapping[str, tuple[int, int]] | None = None,
    on_shapes: bool = False,
    traceable: bool = True,
    sized_by_data: bool = False,
    elementwise: bool = False,
    linear: str | None = None,
    switch: str | None = None,
    clamps: bool = False,
    draws: bool = False,
    moves: Moves | None = None,
    entries: tuple[str, ...] = (),
    compares: str = "",
    product: Product | None = None,
    scales: Literal["into", "out_of"] | None = None,
    chooses: bool = False,
    counts: bool = False,
    at_allocation: bool = False,
    sized_at_allocation: bool = False,
    cell: str = "",
    intermediates: int = 0,
    form: str = "",
    overwrites: tuple[str, ...] = (),
) -> Callable[[Callable[..., Any]], TflOp]:
    """Declare the decorated function as the TFLite builtin of that name.

    Positional parameters are operands (annotated `Array | None`, or `None` as default, where optional, `*name` where
    variadic, annotated `Static` where the type depends on the value), keyword-only ones are options, spelled as in the
    schema. A parameter that is annotated with a dataclass stands for the fields of it.

    updates: operand name -> index of the extra result that lives in that operand's tensor (state kept in place),
        counted from the end where negative.
    repeats: operand name of such a state -> index of another result that repeats it, and the step (0 or -1) of that.
    on_shapes: the body also computes on object arrays of dimensions, so that shape arithmetic can go through it.
    traceable: False where jax cannot trace the body (result sizes that depend on data).
    sized_by_data: the runtime takes the Static operands computed from data as well; the result has fresh symbols then.
    elementwise: each result element depends on the operands' elements at the same (broadcast) place only.
    linear: "joint" where the op is linear in all its data operands together (ADD, RESHAPE), "each" where it is linear
        in each data operand alone, the others fixed (MUL, BATCH_MATMUL), up to what an operand `bias` adds
        (FULLY_CONNECTED), "first" where it is linear in the first operand alone (DIV); None where it is not linear.
        Holds between floats, and where no fused activation is given.
    switch: the family of case distinction that the op makes ("compare", "select", "clip", "round", "cast", …), which a
        proof by sampling could miss.
    clamps: the float kernel applies RELU, RELU6 and RELU_N1_TO_1 as `fused_activation_function` (CONCATENATION has the
        option and refuses it; recurrent ops mean the activation of a cell by it).
    draws: the results are random numbers, others in each call: an equation is never folded, nor two of them shared.
    moves: each element of the results is one of the operands, and which one their values do not decide; of what is
        quantized too, so that no scale matters. "renames": all of them in the same order, under another shape
        (RESHAPE); "permutes": axes in another order; "takes": some of the first operand (SLICE); "splits": several
        results share them; "repeats": some of them again and again (TILE); "joins": of several operands (PACK).
    entries: the operands whose elements the first result has, where these are not those that `moves` tells: the first
        one, or all that it "joins". There may be others beside them, as zeros, and conversions between number types.
    compares: "<", "<=", ">", ">=", "==" or "!=", for comparisons of two operands.
    product: what the op multiplies its operands as, if it does nothing else but to add up the products.
    scales: "into" where numbers become steps of the result's scale, "out_of" where such steps become numbers.
    chooses: what the results hold hangs on how operands compare, beyond what `switch` says of each element (TOPK_V2).
    counts: the result is an arithmetic progression: start, end and step are the operands.
    at_allocation: LiteRT has the result when it allocates tensors, where each operand whose values count is a constant
        or was computed so too (its kernel makes the result persistent, tflite/kernels): shapes, and what they make.
    sized_at_allocation: LiteRT knows the size of the result when it allocates tensors also where what decides it was
        computed then, not by constants alone.
    cell: what reports call a recurrent layer, or one step of it.
    intermediates: how many tensors the operator has that are no operands and no results. Its quantized kernel demands
        them, and quantizers take a float file only if it has them.
    form: the name of the op where it is a further form of a builtin, with other operands than the op of that name.
    overwrites: operands into whose tensors the kernel writes, without a meaning: nothing else may read these.
    """

    def declare(body: Callable[..., Any]) -> TflOp:
        if builtin in _OPS and not form:
            raise RuleError(f"{builtin} is declared in both {_OPS[builtin].body.__module__} and {body.__module__}")
        parameters = Parameters.of(body)
        hints = get_type_hints(body, include_extras=True)
        for group in parameters.groups.values():
            hints |= get_type_hints(group, include_extras=True)
        operands = [declared_operand(p, hints.get(p.name)) for p in parameters.positional]
        options = {name: p.replace(annotation=hints.get(name)) for name, p in parameters.keywords.items()}
        state = dict(updates or {})
        op = TflOp(
            builtin,
            _on_fields(body, parameters),
            tuple(operands),
            options,
            state,
            on_shapes,
            traceable,
            sized_by_data,
            elementwise,
            linear,
            switch,
            clamps,
            draws,
            dict(repeats or {}),
            moves=moves,
            entries=entries,
            compares=compares,
            product=product,
            scales=scales,
            chooses=chooses,
            counts=counts,
            at_allocation=at_allocation,
            sized_at_allocation=sized_at_allocation,
            cell=cell,
            intermediates=intermediates,
            form=form,
            overwrites=overwrites,
        )
        op.__doc__ = body.__doc__
        if not form:
            _OPS[builtin] = op
        return register_op(op)

    return declare


def _on_fields(body: Callable[..., Any], parameters: Parameters) -> Callable[..., Any]:
    """The body, called with the fields of the dataclasses among its parameters."""
    if not parameters.groups:
        return body
    return wraps(body)(lambda *operands, **options: parameters.call(operands, options))


def builtin_ops() -> Mapping[str, TflOp]:
    """Every declared op by its builtin name; of a builtin with several forms the first."""
    return _OPS


def depends_on_data(eqn: Eqn) -> bool:
    """Whether the sizes of the results follow from values that are computed at run time."""
    if eqn.bodies:
        return eqn.op.varies(eqn)
    operands = ((eqn.op.operand_at(i), atom) for i, atom in enumerate(eqn.inputs) if isinstance(atom, Var))
    return not eqn.op.traceable or any(o.decides_size and static_value(atom) is None for o, atom in operands)


def draws(eqn: Eqn) -> bool:
    """Whether an equation's results, or values in its bodies, are random numbers: others in each call and step."""
    return eqn.op.draws or any(e.op.draws for body in eqn.bodies for e in all_eqns(body))


def new_states(eqn: Eqn) -> dict[str, int]:
    """For each operand that an equation updates in place, by name, the result that it becomes."""
    return eqn.op.new_states(len(eqn.outputs))
