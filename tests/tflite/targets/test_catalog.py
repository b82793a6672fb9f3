"""Targets are data: every one has tables that load, and says what keeps an equation from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Const, Eqn, Graph, Program, Signature, State, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.tflite.runtime.table import ROWS
from jfuse.tflite.schema import BUILTIN_CODES
from jfuse.tflite.targets.catalog import target_named
from jfuse.tflite.targets.file_operators import operators_of
from jfuse.tflite.targets.names import TARGETS, is_target
from jfuse.tflite.targets.table import OperatorTable
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import f32, program

FLOATS = f32(2, 3)


def equation(function: Any, *types: TensorType) -> Eqn:
    return trace_graph(function, types).eqns[-1]


@pytest.mark.parametrize("name", [*TARGETS, "litert>=2.14", "litert>=1.5.0"])
def test_each_target_takes_an_addition(name: str) -> None:
    assert is_target(name)
    target = target_named(name)
    assert target.name == name
    assert target.why_not(equation(ops.add, FLOATS, FLOATS)) is None
    for table in filter(None, (target.runs, target.accelerator)):
        assert table.source
        assert table.operators.keys() <= BUILTIN_CODES.keys()
        assert len(table.operators) > 40


# What the sources of the tables say of two operators that tells each table from all others: one it has, one it lacks.
TABLES = {
    "compiled-model": ("HASHTABLE", "UNIDIRECTIONAL_SEQUENCE_LSTM"),  # its delegate has no recurrence
    "ethos-u55": ("TILE", "CAST"),  # Vela: CAST, and comparisons, on Ethos-U85 alone
    "ethos-u85": ("ASSIGN_VARIABLE", "CEIL"),
    "google-tensor": ("RNN", "HASHTABLE"),
    "litert-gpu": ("DENSIFY", "UNPACK"),
    "tflite-micro": ("SVDF", "GELU"),
}
# The table of what runs a file, and that of its accelerator.
TABLES_OF = {
    "litert": (None, None),
    "compiled-model": ("compiled-model", None),
    "tflite-micro": ("tflite-micro", None),
    "cmsis-nn": ("tflite-micro", None),
    "ethos-u55": ("tflite-micro", "ethos-u55"),
    "ethos-u65": ("tflite-micro", "ethos-u55"),
    "ethos-u85": ("tflite-micro", "ethos-u85"),
    "litert-gpu": ("compiled-model", "litert-gpu"),
    "google-tensor": ("compiled-model", "google-tensor"),
}


def fitting(table: OperatorTable | None) -> list[str]:
    """The names of the tables that the operators of one may be."""
    return [] if table is None else [n for n, (has, lacks) in TABLES.items() if _fits(table, has, lacks)]


def _fits(table: OperatorTable, has: str, lacks: str) -> bool:
    return has in table.operators and lacks not in table.operators


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_has_its_own_tables(name: str) -> None:
    target = target_named(name)
    for table, wanted in zip((target.runs, target.accelerator), TABLES_OF[name], strict=True):
        assert fitting(table) == ([] if wanted is None else [wanted])


def test_a_target_that_there_is_not() -> None:
    assert not is_target("litert>=two")
    with pytest.raises(JfuseError, match="no target 'tflite'") as error:
        target_named("tflite")
    assert "litert>=X.Y" in str(error.value)


def lstm(**changes: Any) -> Eqn:
    weights = [np.ones((4, n), np.float32) for n in (3, 3, 3, 3, 4, 4, 4, 4)]
    operands: dict[str, Any] = {"peephole": None, "projection": None, "input": weights[0], "h": f32(1, 4)} | changes
    coupled = operands["input"] is None
    peepholes = [operands["peephole"]] * 3
    biases = [None if coupled else np.ones(4, np.float32), *[np.ones(4, np.float32)] * 3]
    kernels = [operands["input"], *weights[1:4], None if coupled else weights[4], *weights[5:]]

    def call(x: Any, h: Any, c: Any) -> Any:
        tail = [operands["projection"], None, h, c]
        return ops.unidirectional_sequence_lstm(x, *kernels, *peepholes, *biases, *tail)

    return trace_graph(call, [f32(1, 5, 3), operands["h"], f32(1, 4)]).eqns[-1]


@pytest.mark.parametrize(
    ("eqn", "reason"),
    [
        (lstm(), None),
        (lstm(input=None), "coupled gates"),
        (lstm(peephole=np.ones(4, np.float32)), "peepholes"),
        (lstm(projection=np.ones((4, 4), np.float32)), "a projection"),
        (equation(lambda x: ops.tile(x, [1, 2]), FLOATS), "tflite-micro has no TILE"),
        (equation(lambda x: ops.strided_slice(x, [0], [1], [1]), FLOATS), "a range for each of the 2 axes"),
        (equation(lambda x: ops.strided_slice(x, [0, 0], [1, 1], [1, 1]), FLOATS), None),
        (equation(lambda x: ops.concatenation(*[x] * 11, axis=0), FLOATS), "10 values at most"),
        (equation(lambda x: ops.concatenation(*[x] * 10, axis=0), FLOATS), None),
        (equation(ops.unpack, TensorType((1, 3), DType.bool)), "not bool"),
        (equation(ops.neg, f32(0, 3)), "a result without elements"),
        (equation(ops.neg, f32(0)), None),
        (equation(lambda x: ops.reshape(x, np.zeros(0, np.int32)), f32(1)), None),
        (equation(ops.fill, TensorType((2,), DType.i32), f32()), "the operand dims is computed"),
        (equation(ops.reduce_max, FLOATS, TensorType((1,), DType.i32)), "the operand axes is computed"),
        (equation(ops.cumsum, FLOATS, TensorType((), DType.i32)), None),
        (equation(lambda x: ops.transpose(x, np.arange(6)[::-1].astype(np.int32)), f32(*[1] * 6)), "5 axes at most"),
    ],
    ids=lambda v: v.op.name if isinstance(v, Eqn) else str(v),
)
def test_what_keeps_an_equation_from_tflite_micro(eqn: Eqn, reason: str | None) -> None:
    found = target_named("tflite-micro").why_not(eqn)
    assert found is None if reason is None else found is not None and reason in found


@pytest.mark.parametrize("compare", [ops.not_equal, ops.less])
def test_tflite_micro_compares_quantized_numbers(compare: Any) -> None:
    """Its table has types of plain numbers, and i8 is not among those that it compares."""
    plain, quantized = (Var(TensorType((2, 3), DType.i8, q)) for q in (None, Quantization((0.5,), (0,))))
    result = Var(TensorType((2, 3), DType.bool))
    target = target_named("tflite-micro")
    assert target.why_not(Eqn(compare, (quantized, quantized), (result,))) is None
    assert "not i8 to bool" in str(target.why_not(Eqn(compare, (plain, plain), (result,))))


def test_an_old_runtime_takes_operators_of_its_time() -> None:
    gelu = equation(ops.gelu, FLOATS)
    needed = ROWS["GELU"].litert
    assert needed is not None
    assert needed.versions.runtimes[0] == "2.9.0"
    assert target_named("litert>=2.9").why_not(gelu) is None
    assert target_named("litert>=2.8.1").why_not(gelu) == "GELU version 1 needs runtime 2.9.0"
    assert target_named("litert>=2.14.0").why_not(gelu) is None


def test_what_an_npu_leaves_to_the_cpu() -> None:
    target = target_named("ethos-u55")
    of_floats = equation(ops.relu, FLOATS)
    assert target.why_not(of_floats) is None
    assert target.why_on_cpu(of_floats) == "ethos-u55 takes i8, i16, u8, not f32"
    x, y = (Var(TensorType((2, 3), DType.i8, Quantization((0.5,), (0,)))) for _ in range(2))
    assert target.why_on_cpu(Eqn(ops.relu, (x,), (y,))) is None
    assert target.why_not(Eqn(ops.gelu, (x,), (y,))) is None  # which tflite-micro lacks
    assert target.why_not(equation(ops.gelu, FLOATS)) == "tflite-micro has no GELU"
    assert target.why_on_cpu(equation(ops.zeros_like, FLOATS)) == "ethos-u55 has no ZEROS_LIKE"


def test_an_npu_looks_at_what_is_quantized() -> None:
    """The axis of SPLIT, and the shape of TRANSPOSE_CONV, are i32 and stand before it."""
    x, y = (Var(TensorType((2, 4), DType.i8, Quantization((0.5,), (0,)))) for _ in range(2))
    axis = Const(np.array(1, np.int32))
    split = Eqn(ops.split, (axis, x), (y, Var(y.type)), {"num_splits": 2})
    assert target_named("ethos-u55").why_on_cpu(split) is None
    of_numbers = Eqn(ops.split, (axis, Const(np.zeros((2, 4), np.int32))), (Var(TensorType((2, 4), DType.i32)),))
    assert target_named("ethos-u55").why_on_cpu(of_numbers) == "ethos-u55 takes i8, i16, u8, not i32"


def test_a_gpu_takes_a_graph_as_a_whole() -> None:
    assert target_named("litert-gpu").why_not(equation(ops.zeros_like, FLOATS)) == "litert-gpu has no ZEROS_LIKE"
    product = equation(lambda x: ops.reduce_prod(x, np.int32(0)), FLOATS)
    assert target_named("google-tensor").why_not(product) is None
    assert target_named("google-tensor").why_on_cpu(product) == "google-tensor has no REDUCE_PROD"


def integer_lstm(*, kept: bool) -> Program:
    """An i8 LSTM, whose types alone matter, with states of the signature or given."""
    quantized = TensorType((1, 4), DType.i8, Quantization((0.1,), (0,)))
    x = Var(TensorType((1, 5, 3), DType.i8, Quantization((0.1,), (0,))))
    h, c = Var(quantized), Var(TensorType((1, 4), DType.i16, Quantization((0.1,), (0,))))
    plain = lstm()
    results = (Var(quantized), Var(h.type), Var(c.type))
    eqn = Eqn(plain.op, (x, *plain.inputs[1:18], h, c, *[None] * 4), results, plain.params)
    graph = Graph("main", (x, h, c), (eqn,), results)
    initial = [Const(np.zeros((1, 4), v.type.dtype.numpy)) for v in (h, c)]
    states = tuple(State(name, value, "tensor") for name, value in zip("hc", initial, strict=True))
    names = ("x",) if kept else ("x", "h", "c")
    return Program((Signature("main", graph, names, ("y",), states if kept else ()),))


def test_cmsis_nn_forgets_what_an_integer_lstm_keeps() -> None:
    (loss, *_) = target_named("cmsis-nn").losses_of(integer_lstm(kept=True))
    assert "starts every call from zero" in loss
    assert target_named("cmsis-nn").losses_of(integer_lstm(kept=False)) == []
    micro = target_named("tflite-micro").losses_of(integer_lstm(kept=True))
    assert not any("CMSIS" in text for text in micro)
    assert "ends onert" in micro[0]


def test_the_operators_of_a_file() -> None:
    data = to_bytes(program(lambda x: ops.neg(ops.add(ops.neg(x), x)), FLOATS))
    assert operators_of(data) == {"ADD": 1, "NEG": 2}
