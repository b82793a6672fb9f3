"""The one walk over a TensorFlow graph: each node's rule is called with variables or constants, and so lowers itself.

Values on the way are Vars, NumPy arrays, Resources (captured variables) and PendingLists (lists whose element type is
not known yet). Nodes are visited from the results backwards, so unneeded nodes are never visited.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jax.errors import InconclusiveDimensionOperation

from jfuse.base.errors import ImportFailed, LowerError, TypeMismatch
from jfuse.frontends.nan_weights import NanWeights
from jfuse.frontends.tensorflow.in_jax import IN_JAX
from jfuse.frontends.tensorflow.order import Scope, in_order, in_program_order
from jfuse.frontends.tensorflow.variables import Resource, Variables, WriteAnalysis, is_write
from jfuse.ir.dims import Dim, is_known
from jfuse.ir.graph import Source, Var
from jfuse.ir.trace import active_trace, as_atom, at_source
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.array.lists import reserve
from jfuse.lowering.rule_tools.query import type_of
from jfuse.lowering.rules import LowerRule
from jfuse.opaque_ops.tf_op import TfOp
from jfuse.tf_nodes.attributes import (
    Library,
    PartialShape,
    add_defaults,
    called_functions,
    data_inputs,
    decode_attr,
    output_dtypes,
    output_offset,
    output_shapes,
    split_reference,
)
from jfuse.tf_nodes.presence import is_installed
from jfuse.tf_nodes.single_node import result_shapes, run_node, single_node, why_not_single


class FunctionCall(NamedTuple):
    """A node as the call of one function of the library, which is all that it does."""

    name: str
    arguments: Sequence[Any]


Handler = Callable[["Walker", Any, list[Any]], Sequence[Any] | FunctionCall]
HANDLERS: dict[str, Handler] = {}
"""Nodes that are about the graph itself (constants, calls, loops, variables), by TensorFlow op."""
# What a rule ends in where it counts with a size that is a symbol (range(d), np.zeros(d), d < 4), and on operands of
# another rank than the op has.
_OF_OPERANDS = (TypeError, ValueError, IndexError, InconclusiveDimensionOperation)
_PASSES_ON = ("Identity", "PartitionedCall", "StatefulPartitionedCall")
_REMEDY = "register a rule for it with @jfuse.lowers, or keep the op out of the function"


@dataclass(eq=False)
class PendingList:
    """A TensorList with known length and dtype only; `element` is filled in by the first write."""

    length: Dim
    dtype: DType
    element: TensorType | None = None

    def zeros(self) -> Any:
        """The list before anything is written: raises LowerError where its elements are not known."""
        if self.element is None:
            raise LowerError("a TensorList is carried by a loop that never writes it")
        return reserve((self.length, *active_trace().resolve(self.element).shape), self.dtype)


_Body: TypeAlias = tuple[Sequence[Any], list[str], Mapping[str, Any]]
"""The nodes of a function, the references of its results, the values of its arguments."""


@dataclass
class Walker:
    """State of one import: library, rules, variables, notes for the report, weights with NaN."""

    library: Library
    rules: Mapping[str, LowerRule]
    writes: WriteAnalysis
    variables: Variables = field(default_factory=Variables)
    notes: dict[str, None] = field(default_factory=dict)
    nans: NanWeights = field(default_factory=NanWeights)
    stack: tuple[str, ...] = ()
    opaque: dict[str, LowerError] = field(default_factory=dict)  # by node: what to say where its type is missed
    custom_ops: Container[str] = ()  # ops that the user writes as custom operators, whatever rule there is
    mistyped: dict[Var, LowerError] = field(default_factory=dict)  # of another type than the source says: what to say

    def walk_nodes(self, nodes: Sequence[Any], references: Sequence[str], given: Mapping[str, Any]) -> list[Any]:
        """The values of tensor references in a graph whose placeholders have the `given` values.

        Functions that call each other take no more of Python's stack than one, however deep they do.
        """
        walks = [self._walk(nodes, references, given)]
        values: list[Any] = []
        failed: Exception | None = None
        while walks:
            try:
                called = walks[-1].send(values or None) if failed is None else walks[-1].throw(failed)
            except StopIteration as end:
                walks.pop()
                values, failed = end.value, None
            except Exception as error:  # each caller adds its place
                walks.pop()
                if not walks:
                    raise
                failed = error
            else:
                walks.append(self._walk(*called))
                values, failed = [], None
        return values

    def _walk(
        self, nodes: Sequence[Any], references: Sequence[str], given: Mapping[str, Any]
    ) -> Generator[_Body, list[Any] | None, list[Any]]:
        """`walk_nodes`, which gives the functions that it calls and takes their results."""
        scope = Scope({n.name: n for n in nodes}, {}, given)
        writers = self.writes.writers(nodes, given, self.variables.live)
        roots = [*(split_reference(r)[0] for r in references), *writers]
        for name in in_program_order(scope, roots) if writers else in_order(scope, roots):
            node = scope.nodes[name]
            add_defaults(node, self.library.op_def)
            operands = [self._read(scope, r) for r in data_inputs(node)]
            with at_source(self.source(node, self._rounded_constants(scope, node))):
                results = self._results(node, operands)
                scope.values[name] = (
                    ((yield self._body(results)) or []) if isinstance(results, FunctionCall) else results
                )
        self._note_dropped(node for node in nodes if node.name not in scope.values)
        return [self._read(scope, r) for r in references]

    def walk_function(self, name: str, arguments: Sequence[Any]) -> list[Any]:
        """The results of a library function for the values of its arguments."""
        return self.walk_nodes(*self._body(FunctionCall(name, arguments)))

    def _body(self, call: FunctionCall) -> _Body:
        function = self.library.functions.get(call.name)
        if function is None:
            raise ImportFailed(f"the graph calls the function {call.name!r}, which it does not define")
        parameters = function.signature.input_arg
        if len(parameters) != len(call.arguments):
            count_text = f"{len(call.arguments)} operands"
            raise ImportFailed(
                f"a call of the function {call.name!r} does not fit", expected=len(parameters), found=count_text
            )
        arguments = {arg.name: value for arg, value in zip(parameters, call.arguments, strict=True)}
        return function.node_def, [function.ret[o.name] for o in function.signature.output_arg], arguments

    def source(self, node: Any, merged: tuple[Source, ...] = ()) -> Source:
        """The place of a node in the user's model.   merged: those of what is folded into it"""
        return Source(node.name, node.op, self.stack, merged)

    def _rounded_constants(self, scope: Scope, node: Any) -> tuple[Source, ...]:
        """The nodes that round constant operands of a node, as training does with weights."""
        made_by = [scope.nodes.get(split_reference(reference)[0]) for reference in data_inputs(node)]
        rounding = [n for n in made_by if n is not None and n.op.startswith("FakeQuant")]
        return tuple(self.source(n) for n in rounding if not isinstance(scope.values[n.name][0], Var))

    def _note_dropped(self, nodes: Iterable[Any]) -> None:
        """Effects that no result needs are left out, those of functions that are not called as well."""
        waiting, seen = list(nodes)[::-1], set[str]()
        while waiting:
            node = waiting.pop()
            if node.op == "Assert":
                self.notes[f"the assertion {node.name!r} is not checked by the file"] = None
            elif node.op == "PrintV2":
                self.notes[f"what {node.name!r} prints is not printed by the file"] = None
            elif is_write(node.op):
                self.notes[f"the variable written at {node.name!r} is not kept: no result depends on it"] = None
            called = [n for n in called_functions(node) if n in self.library.functions and n not in seen]
            seen.update(called)
            for name in reversed(called):
                waiting += reversed(self.library.functions[name].node_def)

    def _read(self, scope: Scope, reference: str) -> Any:
        name, output, index = split_reference(reference)
        if name in scope.arguments:
            return scope.arguments[name]
        node = scope.nodes[name]
        offset = output_offset(node, self._op_def(node), output) if output else 0
        results = scope.values[name]
        if offset + index >= len(results):
            raise ImportFailed(f"{node.op} has no result {offset + index}", where=node.name, found=repr(reference))
        return results[offset + index]

    def _op_def(self, node: Any) -> Any:
        op_def = self.library.op_def(node.op)
        if op_def is None:
            raise ImportFailed(f"TensorFlow does not know the op {node.op}", where=node.name)
        return op_def

    def _results(self, node: Any, operands: list[Any]) -> Sequence[Any] | FunctionCall:
        if node.op not in _PASSES_ON and node.op not in self.library.functions:
            self.need_types(operands)
        if node.op in self.custom_ops:
            return self._opaque(node, operands)
        handler = HANDLERS.get(node.op)
        if handler is not None:
            return handler(self, node, operands)
        if node.op in self.library.functions:  # how TensorFlow 1 calls
            return FunctionCall(node.op, operands)
        if any(isinstance(o, PendingList) for o in operands):
            operands = self._on_pending(node, operands)
        return self.lower(node, operands)

    def need_types(self, operands: Sequence[Any]) -> None:
        """Raise LowerError where an operand has another type than the one that the source was traced with."""
        for operand in operands:
            if isinstance(operand, Var) and operand in self.mistyped:
                raise self.mistyped[operand]

    def _on_pending(self, node: Any, operands: list[Any]) -> list[Any]:
        """Operands for a node with a list of unknown elements: the first write determines their type."""
        if node.op == "Identity":
            return operands
        if not any(isinstance(o, PendingList) and o.element is None for o in operands):
            return [o.zeros() if isinstance(o, PendingList) else o for o in operands]
        pending, *others = operands
        writes = node.op in ("TensorListSetItem", "TensorListPushBack")
        first_write = writes and not any(isinstance(o, PendingList) for o in others)
        if not first_write or not isinstance(pending, PendingList):
            raise LowerError(
                "a TensorList is read before its element shape is known",
                remedy="give the TensorArray an element_shape",
            )
        pending.element = type_of(others[-1])
        return [pending.zeros(), *others]

    def lower(self, node: Any, operands: list[Any]) -> Sequence[Any]:
        """The results of the node's rule, or of TensorFlow's op as it is."""
        if node.op == "Identity":  # also passes resources on
            return operands[:1]
        rule = self.rules.get(node.op) or IN_JAX.get(node.op)
        if rule is None:
            return self._opaque(node, operands)
        operands = [self.variables.value(o) if isinstance(o, Resource) else o for o in operands]
        operands = [o if isinstance(o, PendingList) else as_atom(o) for o in operands]
        try:
            results = self._applied(rule, node, operands)
        except LowerError as error:
            if DType.variant in output_dtypes(node, self._op_def(node)):  # nothing can go on with a list that is none
                raise
            return self._opaque(node, operands, reason=error.reason)
        except TypeMismatch as error:
            if not self.opaque:
                raise
            raise next(iter(self.opaque.values())) from error
        results = results if isinstance(results, tuple | list) else (results,)
        self._compare_types(node, results)
        return results

    def _applied(self, rule: LowerRule, node: Any, operands: Sequence[Any]) -> Any:
        """Apply a rule. If one of ours fails, ask TensorFlow whether the operands are at fault."""
        attributes = self._attributes(node, rule)
        try:
            return rule(*operands, **attributes)
        except _OF_OPERANDS as error:
            if not rule.is_ours:
                raise
            refused = self._why_refused(node, operands)
            if refused:
                raise ImportFailed(
                    f"TensorFlow does not take the operands of this {node.op}",
                    where=str(self.source(node)),
                    found=refused,
                    remedy="save the model again: its graph is damaged, or was changed by hand",
                ) from error
            types = [o.type for o in operands if isinstance(o, Var)]
            if all(t.is_static for t in types):
                raise
            raise LowerError(
                "its form depends on sizes that are known only at run time",
                found=", ".join(map(str, types)),
                remedy="fix the sizes of the inputs",
            ) from error

    def _why_refused(self, node: Any, operands: Sequence[Any]) -> str:
        """Error of TensorFlow's shape inference for these operands; "" if it accepts them or cannot be asked."""
        if not is_installed() or why_not_single(node, self._op_def(node)):
            return ""
        try:
            result_shapes(single_node(node, len(operands)), _known(operands))
        except LowerError as error:
            return str(error.found)
        return ""

    def _attributes(self, node: Any, rule: LowerRule) -> dict[str, Any]:
        attributes = {}
        for spec in self._op_def(node).attr:
            if spec.name in rule.attributes:
                attributes[spec.name] = decode_attr(node.attr[spec.name])
            elif spec.name in node.attr and not _is_harmless(spec, node.attr[spec.name]):
                value = decode_attr(node.attr[spec.name])
                raise LowerError(f"{node.op} with {spec.name}={value!r} has no TFLite spelling")
        return attributes

    def _opaque(self, node: Any, operands: list[Any], reason: str = "") -> Sequence[Any]:
        """The results of a node without a rule: of constants TensorFlow's own, else those of an opaque equation."""
        op_def = self._op_def(node)
        resources = [o for o in operands if isinstance(o, Resource | PendingList)]
        if resources:
            raise LowerError(
                f"{node.op} on a variable, table or list has no TFLite spelling",
                found=getattr(resources[0], "name", None),
            )
        alone = b"" if why_not_single(node, op_def) else single_node(node, len(operands))
        trace = active_trace()
        values = _known(operands)
        constants = [v for v in values if isinstance(v, np.ndarray)]
        if alone and len(constants) == len(values) and not op_def.is_stateful and node.op not in self.custom_ops:
            return run_node(alone, constants)
        dtypes = output_dtypes(node, op_def)
        stated: Sequence[Any] = result_shapes(alone, values) if alone else output_shapes(node)
        # A graph need not state them, and a damaged one states others.
        shapes = stated if len(stated) == len(dtypes) else [None] * len(dtypes)
        types = tuple(_full_type(node, s, d, reason) for s, d in zip(shapes, dtypes, strict=True))
        inputs = trace.operands(operands)
        if any(shape is None or None in shape for shape in shapes):
            self.opaque[node.name] = LowerError(
                f"{node.op} has no TFLite spelling, and what follows needs its shape",
                where=str(self.source(node)),
                found=reason or None,
                remedy=_REMEDY,
            )
        op = TfOp(node.op, types, reason, alone, bool(op_def.is_stateful))
        return trace.append(op, inputs, types, _plain_attributes(node))

    def _compare_types(self, node: Any, results: Sequence[Any]) -> None:
        """Every type must be compatible with TensorFlow's own; where TensorFlow knows more, take it over."""
        if _is_list(node):
            return
        dtypes = output_dtypes(node, self._op_def(node))
        for result, shape, dtype in zip(results, output_shapes(node), dtypes, strict=False):
            inferred = active_trace().resolve(type_of(result))
            if inferred.dtype is not dtype or _contradicts(inferred.shape, shape):
                raise ImportFailed(
                    f"{node.op} was given a type that TensorFlow contradicts",
                    expected=f"{dtype.value} of shape {shape} as TensorFlow infers it",
                    found=str(inferred),
                    remedy="report this model: the rule for this op is wrong",
                )
            for ours, theirs in zip(inferred.shape, shape or (), strict=False):
                if theirs is not None and not is_known(ours):
                    active_trace().equate(ours, theirs)


def handles(*ops: str) -> Callable[[Handler], Handler]:
    """Register the importer's own handler of nodes of these ops."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(ops, handler))
        return handler

    return register


def _is_harmless(spec: Any, attr: Any) -> bool:
    """Whether an attribute that a rule does not read changes no result: a type, a count, or the op's default."""
    kinds = ("type", "list(type)", "shape", "list(shape)")
    if spec.type in kinds or spec.name in (
        "N",
        "num_split",
        "num",
        "container",
        "shared_name",
        "debug_name",
        "sparse_gradient",
    ):
        return True
    return bool(spec.HasField("default_value") and attr == spec.default_value)


def _known(operands: Sequence[Any]) -> list[np.ndarray | TensorType]:
    """The values of constants, and the types of the others."""
    return [active_trace().resolve(o.type) if isinstance(o, Var) else np.asarray(o) for o in operands]


def _is_list(node: Any) -> bool:
    return node.op.startswith("TensorList") and node.op not in ("TensorListStack", "TensorListGetItem")


def _contradicts(ours: Sequence[Dim], theirs: PartialShape | None) -> bool:
    if theirs is None:
        return False
    sizes = ((int(a), b) for a, b in zip(ours, theirs, strict=False) if is_known(a) and b is not None)
    return len(ours) != len(theirs) or any(a != b for a, b in sizes)


def _full_type(node: Any, shape: Sequence[Dim | None] | None, dtype: DType, reason: str) -> TensorType:
    if shape is None:
        raise LowerError(
            f"{node.op} has no TFLite spelling, and TensorFlow does not know its rank",
            found=reason or None,
            remedy=_REMEDY,
        )
    names = active_trace().names
    return TensorType(tuple(names.fresh("N") if d is None else d for d in shape), dtype)


def _plain_attributes(node: Any) -> dict[str, Any]:
    attributes = {key: decode_attr(node.attr[key]) for key in sorted(node.attr) if not key.startswith("_")}
    return {
        key: value for key, value in attributes.items() if isinstance(value, str | int | float | bool | DType | tuple)
    }
