"""What turns a Python function into an op: its signature names operands and options, its body types and values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax.errors import InconclusiveDimensionOperation

from jfuse.errors import JfuseError, RuleError, TypeMismatch
from jfuse.ir.dims import broadcast_shape, is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Params, Var
from jfuse.ir.registry import register_op
from jfuse.ir.trace import Trace, active_trace, call_text, equate_operands, is_tracing, mismatch
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.known import as_static, named_sizes
from jfuse.kernels.known import static_value as static_value

Array: TypeAlias = Any
"""A NumPy array, a jax array or tracer, or a Var: what an op is called with decides what it does."""

Static: TypeAlias = Annotated[Any, "static"]
"""An operand that the body gets by value: an int, or nested tuples of ints and symbolic dimensions."""

ShapeOnly: TypeAlias = Annotated[Any, "shape_only"]
"""An operand of which only the shape is looked at (SHAPE, RANK)."""

Measure: TypeAlias = Annotated[Any, "measure"]
"""An operand that the body gets as it is, and whose value decides the size of the result (RANGE)."""

TypeRule: TypeAlias = Callable[..., TensorType | tuple[TensorType, ...]]

_OPS: dict[str, TflOp] = {}
_STRING_STAND_IN = np.dtype(ml_dtypes.float8_e4m3b11fnuz)  # no TFLite type; lets jax type-check ops on strings
_LARGEST_SHAPE_VALUE = 64  # elements; tensors beyond this are data, not shapes


def namespace(*operands: Array) -> ModuleType:
    """NumPy where every operand is a NumPy value (constants, shapes), jax.numpy otherwise."""
    return np if all(isinstance(o, np.ndarray | np.generic | int | float | bool) for o in operands) else jnp


@dataclass(frozen=True)
class Operand:
    """One operand of an op's signature."""

    name: str
    static: bool = False
    shape_only: bool = False
    measure: bool = False
    optional: bool = False
    variadic: bool = False

    @property
    def decides_size(self) -> bool:
        """Whether the sizes of the results may follow from the operand's value."""
        return self.static or self.measure


@dataclass(eq=False)
class TflOp:
    """One TFLite builtin. Call it on arrays to compute, on Vars to record an equation."""

    builtin: str
    body: Callable[..., Any]
    operands: tuple[Operand, ...]
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
    type_rule: TypeRule | None = None
    atom_rule: TypeRule | None = None
    data_rule: TypeRule | None = None
    _memo: dict[Any, tuple[TensorType, ...]] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """The builtin's name in small letters."""
        return self.builtin.lower()

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

    def new_states(self, results: int) -> dict[str, int]:
        """For each operand that the op updates in place, the one of so many results that it becomes."""
        return {name: index % results for name, index in self.updates.items()}

    def operand_index(self, name: str) -> int:
        """The position of an operand, as in the file."""
        return next(i for i, o in enumerate(self.operands) if o.name == name)

    def operand_at(self, index: int) -> Operand:
        """The declaration of the operand at a position; the last one repeats where it is variadic."""
        return self.operands[min(index, len(self.operands) - 1)]

    def __call__(self, *operands: Any, **options: Any) -> Any:
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
        dtype = next((v.dtype for v in data if isinstance(v, Var | np.ndarray | jax.Array)), None)
        return [self._as_operand(v, self.operand_at(i), dtype) for i, v in enumerate(values)]

    def _as_operand(self, value: Any, declared: Operand, dtype: Any) -> Any:
        if isinstance(value, Const):
            return value.array
        if value is None and declared.optional:
            return None
        if declared.static and not isinstance(value, Var | np.ndarray | jax.Array):
            return _shape_array(value)
        if isinstance(value, bool | int | float):
            return self._number(value, dtype)
        if value is None:
            raise TypeMismatch(f"{self.name} needs its operand {declared.name!r}")
        return _as_array(value) if isinstance(value, list | tuple | bytes | np.generic) else value

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
        arguments = [as_static(v) if self.operand_at(i).static else v for i, v in enumerate(inputs)]
        with jax.enable_x64(True), np.errstate(all="ignore"):
            results = self.body(*arguments, **params)
        results = results if isinstance(results, tuple) else (results,)
        on_numpy = all(isinstance(v, np.ndarray) or v is None for v in inputs)
        return tuple(_to_numpy(r) for r in results) if on_numpy else results

    def known_values(self, inputs: Sequence[Atom | None], params: Params, count: int) -> Sequence[np.ndarray | None]:
        """What is known of the values of the results, `count` of them, where the op works on shapes."""
        return _known_values(self, inputs, params, count)

    def infer(
        self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph] = ()
    ) -> tuple[TensorType, ...]:
        """The result types, by abstract evaluation of the body or by the op's own type rule."""
        try:
            return self._infer(inputs, params)
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
        if on_atoms is not None:
            found = on_atoms(*inputs, **params)
            return found if isinstance(found, tuple) else (found,)
        facts = tuple(self._fact(atom, self.operand_at(i)) for i, atom in enumerate(inputs))
        if self.type_rule is not None:
            found = self.type_rule(*facts, **params)
            return found if isinstance(found, tuple) else (found,)
        key = (facts, tuple(params.items()))
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._broadcast_types(facts, params) or _abstract_types(self, facts, dict(params))
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
            self._memo[key] = _abstract_types(self, scalars, dict(params))
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


def depends_on_data(eqn: Eqn) -> bool:
    """Whether the sizes of the results follow from values that are computed at run time."""
    if not isinstance(eqn.op, TflOp):
        return bool(eqn.bodies) and bool(getattr(eqn.op, "varies")(eqn))  # noqa: B009 (ops with bodies have it)
    operands = ((eqn.op.operand_at(i), atom) for i, atom in enumerate(eqn.inputs) if isinstance(atom, Var))
    return not eqn.op.traceable or any(o.decides_size and static_value(atom) is None for o, atom in operands)


def draws(eqn: Eqn) -> bool:
    """Whether an equation's results are random numbers."""
    return isinstance(eqn.op, TflOp) and eqn.op.draws


def new_states(eqn: Eqn) -> dict[str, int]:
    """For each operand that an equation updates in place, by name, the result that it becomes."""
    return eqn.op.new_states(len(eqn.outputs)) if isinstance(eqn.op, TflOp) else {}


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
) -> Callable[[Callable[..., Any]], TflOp]:
    """Declare the decorated function as the TFLite builtin of that name.

    Positional parameters are operands (annotated `Array | None`, or `None` as default, where optional, `*name` where
    variadic, annotated `Static` where the type depends on the value), keyword-only ones are options, spelled as in the
    schema.

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
    """

    def declare(body: Callable[..., Any]) -> TflOp:
        if builtin in _OPS:
            raise RuleError(f"{builtin} is declared in both {_OPS[builtin].body.__module__} and {body.__module__}")
        hints = get_type_hints(body, include_extras=True)
        operands, options = [], {}
        for parameter in inspect.signature(body).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY:
                options[parameter.name] = parameter.replace(annotation=hints.get(parameter.name))
            else:
                operands.append(
                    Operand(
                        parameter.name,
                        static=_is_marked(hints.get(parameter.name), "static"),
                        shape_only=_is_marked(hints.get(parameter.name), "shape_only"),
                        measure=_is_marked(hints.get(parameter.name), "measure"),
                        optional=parameter.default is None or type(None) in get_args(hints.get(parameter.name)),
                        variadic=parameter.kind is parameter.VAR_POSITIONAL,
                    )
                )
        state = dict(updates or {})
        op = TflOp(
            builtin,
            body,
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
        )
        op.__doc__ = body.__doc__
        _OPS[builtin] = op
        return register_op(op)

    return declare


def builtin_ops() -> Mapping[str, TflOp]:
    """Every declared op by its builtin name."""
    return _OPS


def record(op: TflOp, operands: Sequence[Any], params: Params) -> tuple[Any, ...]:
    """Append an equation to the active trace, or fold it where every result follows from shapes alone."""
    trace = active_trace()
    inputs: list[Atom | None] = [_as_atom(trace, o) for o in operands]
    types = _infer_resolving(op, trace, inputs, params)
    values = _known_values(op, inputs, params, len(types))
    if all(v is not None and v.dtype != object for v in values):
        return tuple(v.astype(t.dtype.numpy) for v, t in zip(values, types, strict=True) if v is not None)
    return trace.append(op, inputs, types, params, values=values)


def _infer_resolving(op: TflOp, trace: Trace, inputs: list[Atom | None], params: Params) -> tuple[TensorType, ...]:
    """The result types; where operands disagree on open sizes that the op needs equal, those are equated first.

    Bodies say which sizes those are by `layout.agreed`; of elementwise ops it is known.
    """
    while True:
        equated = len(trace.sizes)
        resolved = [_resolved(trace, i) for i in inputs]
        try:
            return op.infer(resolved, params)
        except TypeMismatch:
            data = [i.type.shape for n, i in enumerate(resolved) if i is not None and not op.operand_at(n).static]
            progress = len(trace.sizes) > equated or (op.elementwise and equate_operands(trace, data))
            if not progress:
                raise


def _resolved(trace: Trace, atom: Atom | None) -> Atom | None:
    if not trace.sizes or not isinstance(atom, Var):
        return atom
    resolved = trace.resolve(atom.type)
    return atom if resolved is atom.type else Var(resolved, value=atom.value)


def _as_atom(trace: Trace, operand: Any) -> Atom | None:
    if operand is None or isinstance(operand, Var | Const):
        return operand
    array = _as_array(operand)
    if array.dtype == object and not _is_text(array):
        raise TypeMismatch(
            "symbolic sizes as an operand", found=array.tolist(), remedy="make a tensor of them with `shape_tensor`"
        )
    return trace.constant(array)


def _known_values(op: TflOp, inputs: Sequence[Atom | None], params: Params, count: int) -> list[np.ndarray | None]:
    """Values of the results where the op works on shapes and every operand is known and small."""
    nothing: list[np.ndarray | None] = [None] * count
    if not op.on_shapes:
        return nothing
    arrays = [_shape_operand(op, i, atom) for i, atom in enumerate(inputs)]
    if any(a is None and atom is not None for a, atom in zip(arrays, inputs, strict=True)):
        return nothing
    try:
        results = op.run(arrays, params)
    except (InconclusiveDimensionOperation, TypeError, ValueError, JfuseError):
        return nothing
    found = [np.asarray(r) for r in results]
    return [_tightened(f) for f in found]


def _shape_operand(op: TflOp, index: int, atom: Atom | None) -> Any:
    if atom is None:
        return None
    if op.operand_at(index).shape_only:
        return jax.ShapeDtypeStruct(atom.type.shape, np.bool_)
    if isinstance(atom, Const):
        small = atom.array.size <= _LARGEST_SHAPE_VALUE and atom.type.dtype in (DType.i32, DType.i64, DType.bool)
        return atom.array if small else None
    return atom.value


def _tightened(array: np.ndarray) -> np.ndarray | None:
    if array.dtype != object:
        return array
    return array.astype(np.int64) if all(is_known(d) for d in array.ravel()) else array


def _abstract_types(op: TflOp, facts: Sequence[Any], params: dict[str, Any]) -> tuple[TensorType, ...]:
    data = [i for i, fact in enumerate(facts) if isinstance(fact, TensorType)]

    def call(*arrays: Any) -> Any:
        arguments = list(facts)
        for i, array in zip(data, arrays, strict=True):
            arguments[i] = array
        return op.body(*arguments, **params)

    with jax.enable_x64(True):
        results = jax.eval_shape(call, *(_aval(facts[i]) for i in data))
    return tuple(_type_of_aval(r) for r in (results if isinstance(results, tuple) else (results,)))


def _aval(tensor_type: TensorType) -> jax.ShapeDtypeStruct:
    dtype = _STRING_STAND_IN if tensor_type.dtype is DType.string else tensor_type.dtype.numpy
    return jax.ShapeDtypeStruct(tensor_type.shape, dtype)


def _type_of_aval(aval: Any) -> TensorType:
    dtype = DType.string if aval.dtype == _STRING_STAND_IN else DType.of(aval.dtype)
    return TensorType(tuple(int(d) if is_known(d) else d for d in aval.shape), dtype)


def _in_f32(option: Any, annotation: Any) -> Any:
    if annotation is float:
        return float(np.float32(option))
    return tuple(float(np.float32(v)) for v in option) if annotation == tuple[float, ...] else option


def _to_numpy(value: Any) -> Any:
    return value if isinstance(value, jax.core.Tracer | jax.ShapeDtypeStruct) else np.asarray(value)


def _as_array(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "SU" else array  # strings are object arrays of bytes


def _shape_array(value: Any) -> np.ndarray:
    flat = _leaves(value)
    if all(is_known(d) for d in flat):
        return np.asarray(value, np.int32)
    return np.array(value, object)


def _leaves(value: Any) -> Iterable[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, tuple | list) else [value]


def _is_text(array: np.ndarray) -> bool:
    return all(isinstance(item, bytes) for item in array.ravel())


def _is_marked(hint: Any, mark: str) -> bool:
    return any(get_origin(h) is Annotated and mark in get_args(h)[1:] for h in (hint, *get_args(hint)))
