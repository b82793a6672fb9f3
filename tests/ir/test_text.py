"""The text form prints and reads back: graphs, parameters, constants, programs; complaints tell line and column."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jfuse.base.errors import JfuseError, RuleError
from jfuse.ir import (
    Const,
    DType,
    Eqn,
    Graph,
    Op,
    Program,
    Quantization,
    Signature,
    Source,
    TensorType,
    Var,
    at_source,
    check_graph,
    constants_of,
    parse,
    parse_program,
    symbol,
    trace_graph,
)
from jfuse.ir.registry import find_op, register_family, register_op
from jfuse.ir.text import letters
from jfuse.kernels import ops
from jfuse.kernels.array.lists import reserve
from tests.conftest import Golden
from tests.ir.graphs import B, T, assert_same, f32, i32, recurrent, weights

PART_OF = {DType.c64: np.uint32, DType.c128: np.uint64}


def round_trip(graph: Graph) -> Graph:
    again = parse(str(graph), consts=constants_of(graph))
    assert str(again) == str(graph)
    assert_same(again, graph)
    check_graph(again)
    return again


def showcase() -> Graph:
    """Several results, an omitted operand, constants of each kind, bodies, sources, shape arithmetic."""

    def gelu(x: Any) -> Any:
        with at_source(Source("mul", "Mul", ("act",))):
            y = ops.mul(x, 0.70710677)
        return ops.tanh(y)

    def main(x: Any, ids: Any) -> tuple[Any, ...]:
        body = trace_graph(gelu, [x.type], "body")
        with at_source(Source("PartitionedCall", "", ("act",))):
            (active,) = ops.composite(
                [x], [body], name="acme.gelu", arguments=("x",), attributes=(("approximate", True),)
            )
        product = ops.fully_connected(active, weights(4, 8), None, fused_activation_function="RELU")
        flat = ops.reshape(product, ops.mul(ops.shape(product), np.array([1, 1], np.int32)))
        first, second = ops.split(np.int32(1), flat, num_splits=2)
        return first, ops.add(second, np.array([0.5, -0.0], np.float32)), ops.maximum(ids, np.int64(3))

    return trace_graph(main, [f32(B, 8), TensorType((T,), DType.i64)])


def test_showcase(golden: Golden) -> None:
    graph = showcase()
    golden.check(graph)
    round_trip(graph)


def test_recurrent_graphs_read_back() -> None:
    round_trip(recurrent(weights(2, 2)))
    round_trip(recurrent(weights(9, 9)))


def test_repr_stays_short() -> None:
    graph = showcase()
    assert repr(graph) == "Graph(main: 2 inputs, 8 equations, 3 outputs)"
    assert repr(graph.eqns[0]) == "Eqn(composite)"


def test_an_equation_alone_prints_with_its_own_letters() -> None:
    graph = showcase()
    assert str(graph.eqns[1]) == (
        'b: f32[B,4] = fully_connected[fused_activation_function="RELU"] a '
        f"const<f32[4,8] 128B {Const(weights(4, 8)).digest}> -"
    )


def test_letters() -> None:
    assert [letters(i) for i in (0, 25, 26, 51, 52, 701, 702)] == ["a", "z", "aa", "az", "ba", "zz", "aaa"]


def test_known_values_are_derived_again() -> None:
    def main(x: Any) -> Any:
        doubled = ops.mul(ops.shape(x), np.array([2, 1], np.int32))
        return ops.reshape(x, ops.sub(doubled, np.array([0, 4], np.int32)))

    *_, sizes, reshaped = round_trip(trace_graph(main, [f32(B, 8)])).eqns
    assert sizes.outputs[0].value is not None
    assert sizes.outputs[0].value.tolist() == [2 * B, 4]
    assert str(reshaped.outputs[0].type) == "f32[2*B,4]"


def test_known_values_of_inputs_are_printed() -> None:
    known = Var(i32(2), value=np.array([B, 8], object))
    graph = trace_graph(ops.reshape, [f32(8, B), known])
    assert str(graph).startswith("graph main(a: f32[8,B], b: i32[2]=(B,8)) {\n  c: f32[B,8] = reshape a b\n")
    round_trip(graph)
    scalar = trace_graph(lambda x: x, [Var(i32(), value=np.array(7, object))])
    assert str(scalar).startswith("graph main(a: i32[]=7) {")
    round_trip(scalar)


def test_default_options_are_left_out_and_filled_in() -> None:
    graph = trace_graph(
        lambda x, y: (ops.add(x, y), ops.add(x, y, fused_activation_function="RELU6")), [f32(2), f32(2)]
    )
    lines = str(graph).splitlines()
    assert lines[1:3] == ["  c: f32[2] = add a b", '  d: f32[2] = add[fused_activation_function="RELU6"] a b']
    assert round_trip(graph).eqns[0].params == ops.add.bind_options({})


def test_a_large_constant_used_twice_prints_alike_and_stays_one() -> None:
    weight = weights(20)
    graph = trace_graph(lambda x: ops.mul(ops.add(x, weight), weight), [f32(20)])
    text = f"const<f32[20] 80B {Const(weight).digest}>"
    assert str(graph).count(text) == 2
    first, second = (eqn.inputs[1] for eqn in round_trip(graph).eqns)
    assert first is second
    assert isinstance(first, Const)
    assert first.array is weight


def test_equal_graphs_print_alike() -> None:
    assert str(showcase()) == str(showcase())


def test_effects_and_sources_read_back() -> None:
    a = Var(f32(2))
    source = Source("write (2)", "AssignVariableOp", ("layer", "cell"))
    write = Eqn(ops.composite, (a,), (), {"name": "w"}, source, (Graph("empty", (Var(f32(2)),), (), ()),), ("h", "c 1"))
    graph = Graph("a b", (a,), (write,), ())
    lines = str(graph).splitlines()
    assert lines[0] == 'graph "a b"(a: f32[2]) {'
    assert lines[1] == '  composite[name="w"] a !h !"c 1"  # layer/cell/write (2) (AssignVariableOp)'
    (eqn,) = parse(str(graph)).eqns
    assert (eqn.effects, eqn.outputs, str(eqn.source)) == (("h", "c 1"), (), str(source))
    assert eqn.source.op == "AssignVariableOp"


def test_quantized_types_read_back() -> None:
    quantized = TensorType((B, 4), DType.i8, Quantization((0.1, 1e-30), (-3, 0), 1))
    round_trip(trace_graph(lambda x: x, [quantized]))


unhurried = settings(deadline=None, derandomize=True)  # other work on the machine fails no test

SYMBOLIC = st.sampled_from(
    [B, 2 * B * T - 1, (B + 1) // 2, symbol("f32"), symbol("nan"), symbol("True"), symbol("dims")]
)
WORDS = st.sampled_from(["", "f32", "None", "a b", '"', "\\", "Ünï", "\n", "\u2028", "# x", "]"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    WORDS,
    st.binary(),
    st.sampled_from(DType),
    SYMBOLIC,
)
VALUES = st.recursive(
    SCALARS,
    lambda v: st.one_of(st.lists(v, max_size=3).map(tuple), st.dictionaries(st.text(), v, max_size=3)),
    max_leaves=6,
)


def returning(value: Any) -> Graph:
    body = trace_graph(lambda x: x, [f32(B)], "body")
    return trace_graph(lambda x: ops.composite([x], [body], name="x", attributes=value), [f32(B)])


def as_pairs(value: Any) -> Any:
    """Types and values with floats bit for bit (NaNs alike), for comparison."""
    if isinstance(value, tuple | dict):
        items = value.items() if isinstance(value, dict) else value
        return (type(value).__name__, [as_pairs(item) for item in items])
    return (type(value).__name__, repr(value))


@unhurried
@given(VALUES)
def test_parameters_read_back(value: Any) -> None:
    (eqn,) = round_trip(returning(value)).eqns
    assert as_pairs(eqn.params["attributes"]) == as_pairs(value)


def test_a_parameter_without_a_literal_prints_and_does_not_read_back() -> None:
    text = str(returning(object()))
    assert "attributes=<object>" in text
    with pytest.raises(JfuseError, match=r"line 2, column \d+\n  expected  a literal"):
        parse(text)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Any bits in any dtype, any small shape."""
    dtype = draw(st.sampled_from([d for d in DType if d not in (DType.resource, DType.variant)]))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    size = int(np.prod(shape, dtype=int))
    if dtype is DType.string:
        array = np.empty(size, object)
        array[:] = draw(st.lists(st.binary(), min_size=size, max_size=size))
        return array.reshape(shape)
    if dtype is DType.bool:
        return np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_).reshape(shape)
    if dtype in (DType.i4, DType.u4, DType.i2):
        low, high = {DType.i4: (-8, 7), DType.u4: (0, 15), DType.i2: (-2, 1)}[dtype]
        return (
            np.array(draw(st.lists(st.integers(low, high), min_size=size, max_size=size)))
            .astype(dtype.numpy)
            .reshape(shape)
        )
    count = size * dtype.numpy.itemsize
    return np.frombuffer(draw(st.binary(min_size=count, max_size=count)), dtype.numpy).reshape(shape)


def bits(array: np.ndarray) -> Any:
    return array.tolist() if array.dtype == object else (str(array.dtype), array.shape, array.tobytes())


@unhurried
@given(arrays())
def test_constants_read_back_bit_for_bit(array: np.ndarray) -> None:
    graph = Graph("main", (), (), (Const(array),))
    (constant,) = parse(str(graph), consts=constants_of(graph)).outputs
    assert isinstance(constant, Const)
    assert bits(constant.array) == bits(array)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.float32(0.70710677), "0.70710677"),
        (np.float32(1), "1.0"),
        (np.float32(-0.0), "-0.0"),
        (np.float32(1e-45), "1e-45"),
        (np.float32(np.nan), "f32[](nan)"),
        (np.float32(-np.inf), "f32[](-inf)"),
        (np.uint32(0x7FC00001).view(np.float32), "f32[](nan:7fc00001)"),
        (np.float64(0.1), "f64[](0.1)"),
        (np.float16(0.1), "f16[](0.1)"),
        (DType.bf16.numpy.type(0.1), "bf16[](0.10009765625)"),
        (np.int32(-7), "-7"),
        (np.int64(7), "i64[](7)"),
        (np.bool_(True), "True"),
        (np.array([[1, -2]], np.int8), "i8[1,2](1 -2)"),
        (np.array([], np.float32), "f32[0]()"),
        (np.array([1 - 2j], np.complex64), "c64[1](1.0 -2.0)"),
        (np.array([b"a b", b'"\n'], object), "string[2](b'a b' b'\"\\n')"),
    ],
)
def test_constants_print(array: Any, text: str) -> None:
    graph = Graph("main", (), (), (Const(np.asarray(array)),))
    assert str(graph) == f"graph main() {{\n  return {text}\n}}"
    assert bits(parse(str(graph)).outputs[0].array) == bits(np.asarray(array))  # type: ignore[union-attr]


def program() -> Program:
    first, second = showcase(), trace_graph(ops.neg, [f32(2)])
    return Program(
        (
            Signature("serving_default", first, ("x", "the ids"), ("a", "b", "c")),
            Signature("neg", second, ("x",), ("y",)),
            Signature("call", first, ("x", "ids"), ("a", "b", "c")),
        ),
        ("B1 = B",),
    )


def test_programs_read_back() -> None:
    one = program()
    again = parse_program(str(one), consts=constants_of(*one.graphs()))
    assert str(again) == str(one)
    assert again.assumptions == one.assumptions
    assert [s.key for s in again.signatures] == ["serving_default", "neg", "call"]
    assert again.signatures[0].graph is again.signatures[2].graph
    assert again.signatures[0].input_names == ("x", "the ids")
    for found, wanted in zip(again.graphs(), one.graphs(), strict=True):
        assert_same(found, wanted)


STATES = """
program {
  state "count" = 3.0
  state "h" = const<f32[2,16] 128B 46b1bdc3d4ec4b92>
  signature "next"("x") -> ("y") keeps ("count", "h") = graph 0
  signature "given"("x", "count") -> ("y", "count") exposes ("count") = graph 1
  graph next(a: f32[2,16], b: f32[], c: f32[2,16]) {
    d: f32[2,16] = add a c
    e: f32[] = add b 1.0
    return d, e, d
  }
  graph given(a: f32[], b: f32[]) {
    c: f32[] = add a b
    return c, c
  }
}
"""


def test_states_are_part_of_the_text() -> None:
    large = Const(np.zeros((2, 16), np.float32))
    text = STATES.strip().replace("46b1bdc3d4ec4b92", large.digest)
    one = parse_program(text, consts={large.digest: large.array})
    assert str(one) == text
    kept, exposing = one.signatures
    assert [s.name for s in kept.states] == ["count", "h"]
    assert exposing.exposed == kept.states[:1]  # one name is one state
    assert one.states() == kept.states
    assert constants_of(one).keys() == {large.digest}
    assert str(parse_program(str(one), consts=constants_of(one))) == text


def test_program(golden: Golden) -> None:
    graph = trace_graph(ops.neg, [f32(B)])
    golden.check(Program((Signature("serving_default", graph, ("x",), ("y",)),), ("B1 = B",)))


def test_blank_lines_and_comments_are_skipped() -> None:
    text = (
        "# a graph\n\ngraph main(a: f32[2]) {\n\n  # negate\n  b: f32[2] = neg a\n  return b # the result\n}\n# end\n"
    )
    assert str(parse(text)) == "graph main(a: f32[2]) {\n  b: f32[2] = neg a\n  return b\n}"


def in_graph(line: str) -> str:
    return f"graph main(a: f32[B,2], b: i32[2]) {{\n  {line}\n  return a\n}}"


@pytest.mark.parametrize(
    ("text", "place", "complaint"),
    [
        ("", "line 1, column 1", r"expected  'graph' and a name\n  found     the end of the line"),
        ("digraph", "line 1, column 1", "'graph' and a name"),
        ("graph main(a: f32[2]", "line 1, column 21", "expected  ','"),
        ("graph main(a: g32[2]) {", "line 1, column 15", r"a type, such as f32\[B,8\]"),
        ("graph main(a: f32[2,+]) {", "line 1, column 21", "a symbol or an expression over symbols"),
        ("graph main(a: f32[2], a: f32[2]) {", "line 1, column 23", "each variable bound once"),
        ("graph main(a: i32[2]=(1,2,3)) {", "line 1, column 22", r"a value of i32\[2\]"),
        ("graph main(a: f32[2]) {\n", "line 2, column 1", "an equation, or 'return'"),
        ("graph main(a: f32[2]) {\n  return a\n", "line 3, column 1", "expected  '}'"),
        ("graph main(a: f32[2]) {\n  return a\n}\nx", "line 4, column 1", "the end of the text"),
        (in_graph("c: f32[B,2] = negate a"), "line 2, column 17", r"the name of an op\n  found     negate"),
        (in_graph("c: f32[B,2] = neg d"), "line 2, column 21", r"a variable that is bound above\n  found     d"),
        (in_graph("c: f32[B,3] = neg a"), "line 2, column 17", r"neg has results of other types"),
        (in_graph("c: f32[B,2] = add a"), "line 2, column 17", "add does not take these operands"),
        (in_graph("a: f32[B,2] = neg a"), "line 2, column 3", "each variable bound once"),
        (in_graph("c: f32[B,2], c: f32[B,2] = neg a"), "line 2, column 16", "each variable bound once"),
        (in_graph("c: f32[B,2] = neg[x=] a"), "line 2, column 23", "expected  a literal"),
        (in_graph("c: f32[B,2] = neg[x] a"), "line 2, column 22", "expected  '='"),
        (in_graph("c: f32[B,2] = neg[x=1 x=2] a"), "line 2, column 25", "each parameter once"),
        (in_graph("c: f32[B,2] = neg[x=1] a"), "line 2, column 17", "x"),
        (in_graph('c: f32[B,2] = neg["x=1] a'), "line 2, column 21", "a parameter or ']'"),
        (in_graph("c: f32[B,2] = neg[x=(1,2] a"), "line 2, column 27", r"expected  '\)'"),
        (in_graph('c: f32[B,2] = neg[x="\\q"] a'), "line 2, column 23", "a string in double quotes"),
        (in_graph("c: f32[B,2] = add a 1.0.0"), "line 2, column 23", r"the elements of f32\[\]"),
        (in_graph("c: f32[B,2] = add a f32[3](1.0 2.0)"), "line 2, column 23", r"the elements of f32\[3\]"),
        (in_graph("c: f32[B,2] = add a i8[1](300)"), "line 2, column 23", r"the elements of i8\[1\]"),
        (in_graph("c: f32[B,2] = add a f32[B](1.0)"), "line 2, column 23", "a constant's shape in numbers"),
        (in_graph("c: f32[B,2] = add a bool[1](1)"), "line 2, column 23", "1 is not True or False"),
        (in_graph("c: f32[B,2] = add a string[1](x)"), "line 2, column 23", "x is not a bytes literal"),
        (in_graph("c: f32[B,2] = add a const<f32[20] 80B>"), "line 2, column 37", "the size in bytes and the digest"),
        (
            in_graph("c: f32[B,2] = add a const<f32[20] 80B 0123456789abcdef>"),
            "line 2, column 37",
            "consts={digest: array}",
        ),
        (in_graph("c: i8[2]{scale=(1.0,)} = neg a"), "line 2, column 11", "scale, zero_point and axis"),
        (in_graph("c: f32[B,2] = dilate a b 0.0"), "line 2, column 17", "computed at run time"),
    ],
)
def test_malformed_text(text: str, place: str, complaint: str) -> None:
    with pytest.raises(JfuseError, match=complaint) as caught:
        parse(text)
    assert caught.value.where == place


def test_a_constant_of_another_type_than_printed_is_refused() -> None:
    graph = trace_graph(lambda x: ops.add(x, weights(20)), [f32(20)])
    (digest,) = constants_of(graph)
    with pytest.raises(JfuseError, match=rf"expected  f32\[20\]\n  found     consts\['{digest}'\] is f32\[4\]"):
        parse(str(graph), consts={digest: weights(4)})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("graph main() {\n  return\n}", "expected  'program'"),
        ('program {\n  signature "x"() -> () = graph 1\n  graph main() {\n    return\n  }\n}', "one of the 1 graphs"),
        ("program {\n  signature x() -> () = graph 0\n}", "a string in double quotes"),
        ('program {\n  signature "x"() -> () = 0\n}', "expected  'graph'"),
        (
            'program {\n  signature "x"() -> () keeps ("n") = graph 0\n}',
            r"expected  states that are given above(.|\n)*n",
        ),
        ('program {\n  state "n" = x\n}', "a variable that is bound above"),
        (
            'program {\n  state "n" = 1.0\n  signature "x"() -> () keeps ("n") = graph 0\n'
            "  graph main() {\n    return\n  }\n}",
            "a name or a state for each input and output",
        ),
    ],
)
def test_malformed_programs(text: str, complaint: str) -> None:
    with pytest.raises(JfuseError, match=complaint):
        parse_program(text)


@unhurried
@given(st.data())
def test_damaged_text_is_refused_with_a_place_or_read(data: st.DataObject) -> None:
    """Whatever happens to a text, the answer is a graph or a JfuseError, never another exception."""
    text = str(showcase())
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 8))
    inserted = data.draw(st.text(string.printable, max_size=4))
    graph, place = read(text[:start] + inserted + text[start + length :], constants_of(showcase()))
    assert graph is None or str(parse(str(graph), consts=constants_of(graph))) == str(graph)
    assert graph is not None or place.startswith("line ")


def read(text: str, consts: Mapping[str, np.ndarray]) -> tuple[Graph | None, str]:
    """The graph, or where the text is none."""
    try:
        return parse(text, consts=consts), ""
    except JfuseError as error:
        return None, error.where or ""


class Opaque(Op):
    """An op that one equation owns, as the importer makes them."""

    name: str = ""

    def __init__(self, name: str, types: tuple[TensorType, ...]) -> None:
        self.name = name
        self.types = types

    def infer(self, inputs: Any, params: Any, bodies: Any) -> tuple[TensorType, ...]:
        return self.types

    def run(self, inputs: Any, params: Any, bodies: Any) -> tuple[Any, ...]:
        return tuple(inputs)


register_family("test.", Opaque)


def test_families_of_ops_make_an_op_for_each_equation() -> None:
    a, b, c = Var(f32(B)), Var(f32(B)), Var(f32(T))
    eqns = tuple(Eqn(Opaque("test.Erf", (o.type,)), (a,), (o,), {"z": 1, "a": 2}) for o in (b, c))
    graph = Graph("main", (a,), eqns, (b, c))
    again = parse(str(graph))
    assert str(again) == str(graph)
    assert "test.Erf[a=2 z=1] a" in str(graph)
    assert [eqn.op.types for eqn in again.eqns if isinstance(eqn.op, Opaque)] == [(f32(B),), (f32(T),)]


def test_sizes_as_parameters_read_back() -> None:
    zeros = Var(f32(B, 2))
    eqn = Eqn(reserve, (), (zeros,), {"dtype": DType.f32, "shape": (B, 2)})
    graph = Graph("main", (Var(f32(B)),), (eqn,), (zeros,))
    assert "b: f32[B,2] = reserve[dtype=f32 shape=(B,2)]\n" in str(graph)
    round_trip(graph)


def test_names_of_ops_are_taken_once() -> None:
    assert find_op("add") is ops.add
    assert find_op("no.such.op") is None
    with pytest.raises(RuleError, match="two ops are named 'add'"):
        register_op(ops.add)
    with pytest.raises(RuleError, match=r"start with 'test\.'"):
        register_family("test.", Opaque)


def test_broken_graphs_still_print() -> None:
    graph = showcase()
    broken = replace(graph, eqns=graph.eqns[1:])
    assert (
        str(broken).splitlines()[1].startswith('  c: f32[B,4] = fully_connected[fused_activation_function="RELU"] ? ')
    )
