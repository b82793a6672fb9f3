"""`TflOp`: one builtin, which computes on arrays, records itself on Vars, and derives its types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
from jax.errors import InconclusiveDimensionOperation

from jfuse.base.errors import JfuseError, RuleError, TypeMismatch
from jfuse.ir.dims import broadcast_shape, is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Moves, Op, Operand, Params, Product, Var, arrays_of
from jfuse.ir.min_max_dims import normal
from jfuse.ir.trace import as_array, call_text, is_tracing, mismatch
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.abstract_types import abstract_types
from jfuse.kernels.core.integer_types import IntegerBody, IntegerTypes, Rounding, Takes
from jfuse.kernels.core.operand import Placeholder
from jfuse.kernels.core.record import known_values, record
from jfuse.kernels.core.static_values import as_static, named_sizes, static_value

TypeRule: TypeAlias = Callable[..., TensorType | tuple[TensorType, ...]]


@dataclass(eq=False)
class TflOp(Op):
    """One TFLite builtin. Call it on arrays to compute, on Vars to record an equation."""

    builtin: str = field()
    body: Callable[..., Any]
    operands: tuple[Operand, ...] = field()
    options: Mapping[str, inspect.Parameter]
    updates: Mapping[str, int] = field(default_factory=dict)
    on_shapes: bool = False
    traceable: bool = True
    sized_by_data: bool = False
    elementwise: bool = False
    linear: str | None = None
    switch: str | None = None
    clamps: bool = False
    draws: bool = False
    repeats: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    moves: Moves | None = None
    entries: tuple[str, ...] = ()
    compares: str = ""
    product: Product | None = None
    scales: Literal["into", "out_of"] | None = None
    chooses: bool = False
    counts: bool = False
    at_allocation: bool = False
    sized_at_allocation: bool = False
    cell: str = ""
    intermediates: int = 0
    form: str = ""
    overwrites: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    type_rule: TypeRule | None = None
    atom_rule: TypeRule | None = None
    data_rule: TypeRule | None = None
    watched_body: Callable[..., Any] | None = None
    integer_body: IntegerBody | None = None
    integer_form: Takes | None = None
    is_kernel = True
    _memo: dict[Any, tuple[TensorType, ...]] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The builtin's name in small letters, or that of a further form."""
        return self.form or self.builtin.lower()

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The options in the declared order with their defaults, `...` where there is none."""
        return {n: ... if p.default is p.empty else p.default for n, p in self.options.items()}

    def types(self, rule: TypeRule) -> TypeRule:
        """Register a type rule: called with operand types (values for Static operands) and the options."""
        self.type_rule = rule
        return rule

    def types_of_atoms(self, rule: TypeRule) -> TypeRule:
        """Register a type rule that gets the operands themselves: for RANGE, which needs both values and dtypes."""
        self.atom_rule = rule
        return rule

    def types_by_data(self, rule: TypeRule) -> TypeRule:
        """Register a type rule for Static operands that are computed at run time; it gets the operands themselves."""
        self.data_rule = rule
        return rule

    def watched(self, *parts: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a body that also gives inner values: called with some of these names, operands and options.

        It returns the results, then the value of each name, which has no numbers where the options leave it out.
        """

        def register(body: Callable[..., Any]) -> Callable[..., Any]:
            self.parts, self.watched_body = parts, body
            return body

        return register

    def run_watched(self, inputs: Sequence[Any], params: Params, parts: Sequence[str]) -> tuple[Any, ...]:
        """The results for arrays, then the inner values of these names."""
        assert self.watched_body is not None, "an op with parts"
        with jax.enable_x64(True):
            return tuple(self.watched_body(parts, *inputs, **params))

    def quantized(self, takes: Takes) -> Callable[[IntegerBody], IntegerBody]:
        """Register a body for quantized integers: called with the `IntegerTypes`, the operands and the options.

        takes: whether it computes the runtime's integers for these types and options, in the rounding that they have.
        """

        def register(body: IntegerBody) -> IntegerBody:
            if self.integer_body is not None:
                raise RuleError(f"{self.builtin} has two integer bodies")
            self.integer_body, self.integer_form = body, takes
            return body

        return register

    def takes_integers(self, eqn: Eqn, rounding: Rounding | None) -> bool:
        """Whether there is an integer body for the types and options of an equation of the op, in a rounding."""
        return self.integer_form is not None and self.integer_form(IntegerTypes.of(eqn, rounding), eqn.params)

    def run_integers(self, types: IntegerTypes, inputs: Sequence[Any], params: Params) -> tuple[Any, ...]:
        """The results of the integer body for arrays."""
        assert self.integer_body is not None, "takes_integers"
        arguments = self._arguments(arrays_of(inputs))
        with jax.enable_x64(True), np.errstate(all="ignore"):
            results = self.integer_body(types, *arguments, **params)
        return results if isinstance(results, tuple) else (results,)

    def _arguments(self, arrays: Sequence[Any]) -> list[Any]:
        return [as_static(v) if self.operand_at(i).static else v for i, v in enumerate(arrays)]

    def new_states(self, results: int) -> dict[str, int]:
        """For each operand that the op updates in place, the one of so many results that it becomes."""
        return {name: index % results for name, index in self.updates.items()}

    def state_operands(self, eqn: Eqn) -> dict[int, int]:
        """For each operand that an equation updates in place, by position, the result that it becomes."""
        return {self.operand_index(name): i for name, i in self.new_states(len(eqn.outputs)).items()}

    def __call__(self, *operands: Any, **options: Any) -> Any:
        for operand in operands:
            if isinstance(operand, Placeholder):
                return operand.applied(self, operands, options)
        params = self.bind_options(options)
        values = self._bind_operands(operands)
        if any(isinstance(v, Var) for v in values) or (self.draws and is_tracing()):
            results = record(self, values, params)
        else:
            results = self.run(values, params, ())
        return results[0] if len(results) == 1 else results

    def bind_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """All options in the declared order, defaults filled in; raises TypeMismatch for unknown or missing ones.

        Floats are rounded to f32, as the file keeps them: the graph and its proofs speak of what the file will do.
        """
        unknown = options.keys() - self.options.keys()
        if unknown:
            raise TypeMismatch(f"{self.name} has no option {sorted(unknown)}", expected=list(self.options))
        missing = [n for n, p in self.options.items() if p.default is p.empty and n not in options]
        if missing:
            raise TypeMismatch(f"{self.name} needs the options {missing}")
        bound = {n: options.get(n, p.default) for n, p in self.options.items()}
        return {n: _in_f32(v, self.options[n].annotation) for n, v in bound.items()}

    def _bind_operands(self, operands: Sequence[Any]) -> list[Any]:
        variadic = self.operands and self.operands[-1].variadic
        if len(operands) > len(self.operands) and not variadic:
            raise TypeMismatch(f"{self.name} takes {len(self.operands)} operands", found=len(operands))
        values = list(operands)
        for declared in self.operands[len(operands) :]:
            if not declared.optional and not declared.variadic:
                raise TypeMismatch(f"{self.name} needs its operand {declared.name!r}")
            if declared.optional:
                values.append(None)
        data = (v for i, v in enumerate(values) if not self.operand_at(i).static)
        dtype = next((v.dtype for v in data if isinstance(v, Var | Const | np.ndarray | jax.Array)), None)
        return [self._as_operand(v, self.operand_at(i), dtype) for i, v in enumerate(values)]

    def _as_operand(self, value: Any, declared: Operand, dtype: Any) -> Any:
        if isinstance(value, Const) or (value is None and declared.optional):
            return value
        if declared.static and not isinstance(value, Var | np.ndarray | jax.Array):
            return _shape_array(value)
        if isinstance(value, bool | int | float):
            return self._number(value, dtype)
        if value is None:
            raise TypeMismatch(f"{self.name} needs its operand {declared.name!r}")
        return as_array(value) if isinstance(value, list | tuple | bytes | np.generic) else value

    def _number(self, value: bool | int | float, dtype: Any) -> np.ndarray:
        """A Python number in the dtype of the first data operand, which must be able to hold it."""
        number = np.asarray(value)
        if dtype is None:
            return number
        if not np.can_cast(number.dtype, dtype, "same_kind") and number.astype(dtype) != value:
            raise TypeMismatch(
                f"{self.name} is given a number that its first operand's dtype cannot hold",
                expected=str(DType.of(dtype)),
                found=value,
                remedy="pass an array of the dtype that is meant",
            )
        return number.astype(dtype)

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph] = ()) -> tuple[Any, ...]:
        """The results for arrays; for Vars an equation is recorded."""
        if any(isinstance(i, Var) for i in inputs) or (self.draws and is_tracing()):
            return record(self, inputs, params)
        inputs = arrays_of(inputs)
        arguments = self._arguments(inputs)
        with jax.enable_x64(True), np.errstate(all="ignore"):
            results = self.body(*arguments, **params)
        results = results if isinstance(results, tuple) else (results,)
        on_numpy = all(isinstance(v, np.ndarray) or v is None for v in inputs)
        return tuple(_to_numpy(r) for r in results) if on_numpy else results

    def known_values(self, inputs: Sequence[Atom | None], params: Params, count: int) -> Sequence[np.ndarray | None]:
        """The known values of the results, `count` of them, where the op works on shapes."""
        return known_values(self, inputs, params, count)

    def infer(
        self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph] = ()
    ) -> tuple[TensorType, ...]:
        """The result types, by abstract evaluation of the body or by the op's own type rule."""
        try:
            return tuple(map(_in_one_form, self._infer(inputs, params)))
        except TypeMismatch as error:
            error.context = error.context or call_text(self, inputs, params)
            raise
        except JfuseError:
            raise
        except Exception as error:  # jax and the bodies raise whatever they like for operands that do not fit
            raise mismatch(self, inputs, params, str(error).split("\n")[0]) from error

    def _infer(self, inputs: Sequence[Atom | None], params: Params) -> tuple[TensorType, ...]:
        on_atoms = self.atom_rule
        if on_atoms is None and self.data_rule is not None and any(map(self._is_open, enumerate(inputs))):
            on_atoms = self.data_rule
        if on_atoms is None:
            try:
                return self.types_by_value(inputs, params)
            except InconclusiveDimensionOperation:  # known values do not decide the size, as those of data do not
                if self.data_rule is None:
                    raise
                on_atoms = self.data_rule
        types = on_atoms(*inputs, **params)
        return types if isinstance(types, tuple) else (types,)

    def types_by_value(self, inputs: Sequence[Atom | None], params: Params) -> tuple[TensorType, ...]:
        """The result types by the body or the type rule, both of which get Static operands by value."""
        facts = tuple(self._fact(atom, self.operand_at(i)) for i, atom in enumerate(inputs))
        if self.type_rule is not None:
            types = self.type_rule(*facts, **params)
            return types if isinstance(types, tuple) else (types,)
        key = (facts, tuple(params.items()))
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._broadcast_types(facts, params) or abstract_types(
                self.body, facts, dict(params)
            )
        return known

    def _broadcast_types(self, facts: tuple[Any, ...], params: Params) -> tuple[TensorType, ...] | None:
        """The result type of an elementwise op: the body is asked about scalars only, once for all shapes.

        None where it must be asked about these operands: SELECT takes rows, and sizes may be open or not agree.
        """
        types = [f for f in facts if isinstance(f, TensorType)]
        if not self.elementwise or self.switch == "select" or len(types) < len(facts) or not any(t.rank for t in types):
            return None
        shape = broadcast_shape([t.shape for t in types])
        if shape is None:
            return None
        scalars = tuple(TensorType((), t.dtype, t.quantization) for t in types)
        key = (scalars, tuple(params.items()))
        if key not in self._memo:
            self._memo[key] = abstract_types(self.body, scalars, dict(params))
        return tuple(TensorType(shape, t.dtype) for t in self._memo[key])

    def _is_open(self, operand: tuple[int, Atom | None]) -> bool:
        index, atom = operand
        return self.operand_at(index).static and isinstance(atom, Var) and static_value(atom) is None

    def _fact(self, atom: Atom | None, declared: Operand) -> Any:
        if not declared.static or atom is None:
            return None if atom is None else atom.type
        value = static_value(atom)
        if value is None and self.sized_by_data:
            value = named_sizes(atom)
        if value is None:
            raise TypeMismatch(
                f"operand {declared.name!r} of {self.name} is computed at run time",
                expected="a constant, or a value that follows from shapes",
                found=str(atom.type),
            )
        return value


def _in_f32(option: Any, annotation: Any) -> Any:
    if annotation is float:
        return float(np.float32(option))
    return tuple(float(np.float32(v)) for v in option) if annotation == tuple[float, ...] else option


def _to_numpy(value: Any) -> Any:
    return value if isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct) else np.asarray(value)


def _shape_array(value: Any) -> np.ndarray:
    flat = _leaves(value)
    if all(is_known(d) for d in flat):
        return np.asarray(value, np.int32)
    return np.array(value, object)


def _leaves(value: Any) -> Iterable[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, tuple | list) else [value]


def _in_one_form(tensor_type: TensorType) -> TensorType:
    if tensor_type.is_static:
        return tensor_type
    return replace(tensor_type, shape=tuple(map(normal, tensor_type.shape)))
