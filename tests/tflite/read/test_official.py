"""Files of the official converter, of every kind: loaded, printed, and written back so that LiteRT runs them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import LowerError
from jfuse.ir.graph import Program
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.proof.inputs import draws
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.read.file import load_tflite
from tests.tflite.read.round_trip import round_trip

RNG = np.random.default_rng(3)
KERNEL = RNG.normal(size=(3, 3, 2, 4)).astype(np.float32)
DEPTHWISE = RNG.normal(size=(3, 3, 4, 1)).astype(np.float32)
WEIGHTS = RNG.normal(size=(16, 24)).astype(np.float32)
LARGE = RNG.normal(size=(64, 24)).astype(np.float32)  # what is smaller than 1,024 elements stays float
SPARSE = np.where(RNG.random((64, 24)) < 0.9, 0, LARGE).astype(np.float32)
SQUARE = (0.3 * RNG.normal(size=(32, 32))).astype(np.float32)


def network(x: Any) -> Any:
    y = tf.nn.depthwise_conv2d(tf.nn.relu6(tf.nn.conv2d(x, KERNEL, 1, "SAME")), DEPTHWISE, [1, 1, 1, 1], "SAME")
    y = tf.reshape(tf.nn.max_pool2d(y, 2, 2, "SAME"), [tf.shape(x)[0], 16])
    return tf.nn.softmax(tf.concat([tf.matmul(y, WEIGHTS), tf.tanh(y)], -1))


def loop(x: Any) -> Any:
    y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, SQUARE))), [0, x])[1]
    return tf.cond(tf.reduce_sum(y) > 0, lambda: y * 2.0, lambda: y - 1.0)


CONV = (network, [None, 4, 4, 2])
DENSE: tuple[Callable[[Any], Any], list[int]] = (lambda x: tf.nn.relu(tf.matmul(x, LARGE)), [2, 64])
INT8 = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
INT16 = [tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8]

# function and shape, whether calibrated, types of weights, kinds of operators, optimization, type of inputs and outputs
FILES: dict[str, tuple[Any, bool, Sequence[Any], Sequence[Any], Any, Any]] = {
    "float": (CONV, False, (), (), None, None),
    "int8": (CONV, True, (), INT8, tf.lite.Optimize.DEFAULT, tf.int8),
    "uint8": (DENSE, True, (), INT8, tf.lite.Optimize.DEFAULT, tf.uint8),
    "int16x8": (CONV, True, (), INT16, tf.lite.Optimize.DEFAULT, None),
    "float16": (CONV, False, (tf.float16,), (), tf.lite.Optimize.DEFAULT, None),
    "dynamic range": (DENSE, False, (), (), tf.lite.Optimize.DEFAULT, None),
    "sparse": ((lambda x: tf.matmul(x, SPARSE), [2, 64]), False, (), (), tf.lite.Optimize.EXPERIMENTAL_SPARSITY, None),
    "loop": ((loop, [1, 32]), False, (), (), None, None),
    "loop int8": ((loop, [1, 32]), True, (), (), tf.lite.Optimize.DEFAULT, None),
}


def converted(name: str) -> bytes:
    (function, shape), calibrated, weights, kinds, optimization, ends = FILES[name]
    spec = tf.TensorSpec(shape, tf.float32)
    concrete = tf.function(function, input_signature=[spec], autograph=False).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    converter.optimizations = [] if optimization is None else [optimization]
    converter.target_spec.supported_types = list(weights)
    if kinds:
        converter.target_spec.supported_ops = kinds

    def samples() -> Iterator[Any]:
        for _ in range(3):
            yield [RNG.normal(size=[d or 1 for d in shape]).astype(np.float32)]

    if calibrated:
        converter.representative_dataset = samples
    if ends is not None:
        converter.inference_input_type = converter.inference_output_type = ends
    return bytes(converter.convert())


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {}


@pytest.fixture
def file(request: pytest.FixtureRequest, files: dict[str, bytes]) -> bytes:
    name: str = request.param
    if name not in files:
        files[name] = converted(name)
    return files[name]


def dtypes(program: Program) -> set[DType]:
    atoms = (a for graph in program.entries() for eqn in all_eqns(graph) for a in (*eqn.inputs, *eqn.outputs))
    return {a.type.dtype for a in atoms if a is not None and a.type.quantization is not None}


WANTED = {
    "int8": {DType.i8, DType.i32},
    "uint8": {DType.u8, DType.i8},
    "int16x8": {DType.i16, DType.i8, DType.i64},
    "dynamic range": {DType.i8},
    "loop int8": {DType.i8},
}


@pytest.mark.parametrize(("file", "name"), [(n, n) for n in FILES], indirect=["file"], ids=list(FILES))
@pytest.mark.filterwarnings("ignore:Statistics for quantized inputs")
def test_round_trip(file: bytes, name: str) -> None:
    program = round_trip(file)
    assert program.facts.description == "MLIR Converted."
    assert "CONVERSION_METADATA" in dict(program.facts.metadata)
    assert dtypes(program) == WANTED.get(name, set())


@pytest.mark.parametrize("file", ["int8"], indirect=True)
def test_shapes_of_quantized_results_are_derived(file: bytes) -> None:
    """The batch is one symbol throughout, through the arithmetic on shapes in front of RESHAPE."""
    graph = load_tflite(file).signatures[0].graph
    (reshape,) = (e for e in graph.eqns if e.op.name == "reshape")
    assert str(reshape.outputs[0].type).startswith("i8[B,16]{scale=(")
    assert str(graph.outputs[0].type).startswith("i8[B,40]{scale=(0.00390625,) zero_point=(-128,) axis=0}")
    filters = next(e.inputs[1] for e in graph.eqns if e.op.name == "conv_2d")
    assert filters is not None
    assert filters.type.quantization is not None
    assert (len(filters.type.quantization.scale), filters.type.quantization.axis) == (4, 0)


@pytest.mark.parametrize("file", ["int8"], indirect=True)
def test_quantized_programs_are_not_lowered(file: bytes, tmp_path: Path) -> None:
    path = tmp_path / "int8.tflite"
    path.write_bytes(file)
    with pytest.raises(LowerError, match=r"a program that is quantized(.|\n)*conv_2d(.|\n)*save it as it is"):
        jfuse.lower(jfuse.load(path))
    saved = jfuse.load(path).save(tmp_path / "again.tflite")
    assert str(jfuse.load(saved)) == str(jfuse.load(path))


class Kept(tf.Module):
    """Two signatures over one variable, which one of them also changes in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.v = tf.Variable(tf.ones([2, 3]))

    @tf.function(input_signature=[tf.TensorSpec([2, 3])], autograph=False)
    def add(self, x: Any) -> Any:
        self.v.assign_add(x)
        return {"sum": self.v.read_value(), "x": x * 2.0}

    @tf.function(input_signature=[tf.TensorSpec([2, 3])], autograph=False)
    def halve(self, x: Any) -> Any:
        def body(i: Any) -> Any:
            with tf.control_dependencies([self.v.assign(self.v * 0.5)]):
                return (i + 1,)

        with tf.control_dependencies(tf.while_loop(lambda i: i < 3, body, [0])):
            return {"half": self.v.read_value() + x}


class Lookup(tf.Module):
    """A table whose size is asked for, which no constant says."""

    def __init__(self) -> None:
        super().__init__()
        contents = tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "bc"]), tf.constant([1, 2], tf.int64))
        self.table = tf.lookup.StaticHashTable(contents, -1)

    @tf.function(input_signature=[tf.TensorSpec([3], tf.string)], autograph=False)
    def find(self, words: Any) -> Any:
        return {"found": self.table.lookup(words) + self.table.size()}


def check_calls_in_a_row(file: Path, keys: list[str]) -> None:
    """A loaded file answers as LiteRT does, call after call, and anew from the initial values."""
    model, litert = jfuse.load(file), LiteRt(file.read_bytes(), delegates=False)
    drawn = {s.key: next(draws(s, {}, 3)) for s in model.signatures.values()}
    stream = model.stream()
    first: dict[str, dict[str, np.ndarray]] = {}
    for key in (*keys, *keys):
        wanted = litert.run(key, drawn[key])
        found = stream.run(drawn[key], key)
        first.setdefault(key, wanted)
        assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    stream.reset()
    again = stream.run(drawn[keys[0]], keys[0])
    assert all(np.array_equal(again[name], value) for name, value in first[keys[0]].items())
    assert jfuse.verify(file).passed


@pytest.mark.parametrize(
    ("make", "keys", "op"),
    [
        pytest.param(Kept, ["add"], "while", id="variable"),
        pytest.param(Kept, ["halve", "add"], "opaque.assign_variable", id="variable in a loop"),
        pytest.param(Lookup, ["find"], "opaque.hashtable_size", id="size of a table"),
    ],
)
def test_resources(make: Callable[[], Any], keys: list[str], op: str, tmp_path: Path) -> None:
    module = make()
    tf.saved_model.save(module, tmp_path, signatures={key: getattr(module, key) for key in keys})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path), signature_keys=keys)
    converter.experimental_enable_resource_variables = True
    file = tmp_path / "model.tflite"
    file.write_bytes(converter.convert())
    program = round_trip(file.read_bytes())
    check_calls_in_a_row(file, keys)
    names = {eqn.op.name for graph in program.entries() for eqn in all_eqns(graph)}
    assert (op in names) == op.startswith("opaque.")
    assert len(program.signatures) == len(keys)
    assert (op == "while") == bool(program.states())
