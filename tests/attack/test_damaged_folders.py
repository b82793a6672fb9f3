"""Damaged and crafted SavedModels, which jfuse reads by itself: one clear error, without filling time or memory."""

from __future__ import annotations

import os
import resource
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.frontends.checkpoint.checksum import masked_crc32c
from jfuse.frontends.checkpoint.sorted_table import read_table
from jfuse.tf_nodes.messages import message_class
from jfuse.tflite import mapped_file

SECONDS = 30.0  # on a busy machine
MEMORY = 2**30  # bytes
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)


class Looping(tf.Module):
    """A variable, a loop and a branch; functions in a library."""

    def __init__(self) -> None:
        self.w = tf.Variable(WEIGHTS, name="w")

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def __call__(self, x: Any) -> Any:
        y = tf.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, tf.tanh(y)), [0, x @ self.w])[1]
        return {"y": tf.cond(tf.reduce_sum(y) > 0, lambda: y + 1.0, lambda: y - 1.0)}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    tf.saved_model.save(Looping(), str(folder))
    assert "reads" not in " ".join(jfuse.load(folder).report.notes)
    return folder


def _signature(graph: Any) -> Any:
    """The function of the signature's body, which calls the loop."""
    functions = {f.signature.name: f for f in graph.graph_def.library.function}
    return next(f for f in functions.values() if any("While" in n.op for n in f.node_def))


def _node(graph: Any, op: str) -> Any:
    return next(n for f in graph.graph_def.library.function for n in f.node_def if op in n.op)


def _without_body(graph: Any) -> None:
    name = _node(graph, "While").attr["body"].func.name
    library = graph.graph_def.library.function
    del library[[f.signature.name for f in library].index(name)]


def _calls_itself(graph: Any) -> None:
    function = _signature(graph)
    operands = [argument.name for argument in function.signature.input_arg]
    function.node_def.add(name="again", op=function.signature.name, input=operands)


def _in_a_circle(graph: Any) -> None:
    function = _signature(graph)
    loop = next(n for n in function.node_def if "While" in n.op)
    first = next(n for n in function.node_def if n.op == "MatMul")
    first.input[0] = f"{loop.name}:output:0"


def _changed(op: str, change: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda graph: change(_node(graph, op))


def _huge(graph: Any) -> None:
    constant = next(
        n for n in _signature(graph).node_def if n.op == "Const" and n.attr["dtype"].type == tf.int32.as_datatype_enum
    )
    for _ in range(2):
        constant.attr["value"].tensor.tensor_shape.dim.add(size=2**20)


def _variable(graph: Any, size: int) -> None:
    item = next(n for n in graph.object_graph_def.nodes if n.WhichOneof("kind") == "variable")
    item.variable.shape.dim[0].size = size


def _child(graph: Any, number: int) -> None:
    graph.object_graph_def.nodes[0].children[0].node_id = number


def _unstructured(graph: Any) -> None:
    for function in graph.object_graph_def.concrete_functions.values():
        del function.canonicalized_input_signature.tuple_value.values[1:]


def _kept(graph: Any, kind: str) -> None:
    """The variable becomes a constant that the graph lacks, or an asset that it lacks."""
    item = next(n for n in graph.object_graph_def.nodes if n.WhichOneof("kind") == "variable")
    if kind == "constant":
        item.constant.operation = "nobody"
    else:
        item.asset.asset_file_def_index = 9


def _of_rank_3(graph: Any) -> None:
    """A product of matrices becomes one whose first operand has three dimensions."""
    node = _node(graph, "MatMul")
    node.op = "Einsum"
    for name in set(node.attr) - {"T"}:
        del node.attr[name]
    node.attr["N"].i = 2
    node.attr["equation"].s = b"abc,cd->abd"
    for reader in _signature(graph).node_def:
        reader.input[:] = [name.replace(":product:", ":output:") for name in reader.input]


def _body_without_result(graph: Any) -> None:
    name = _node(graph, "While").attr["body"].func.name
    body = next(f for f in graph.graph_def.library.function if f.signature.name == name)
    del body.ret[body.signature.output_arg.pop().name]


GRAPHS: dict[str, tuple[Callable[[Any], object], str]] = {
    "no function": (_without_body, "which it does not define"),
    "a function that calls itself": (_calls_itself, "calls itself"),
    "a loop's body that lacks a result": (_body_without_result, "results of '.*body.*', as .*While has them"),
    "nodes in a circle": (_in_a_circle, "wait for another"),
    "an operand missing": (_changed("MatMul", lambda n: n.input.pop()), "2 operands of MatMul"),
    "operands too many": (_changed("MatMul", lambda n: n.input.append(n.input[0])), "2 operands of MatMul"),
    "an attribute missing": (_changed("MatMul", lambda n: n.attr.pop("T")), "the attribute 'T' of MatMul"),
    "an attribute of another kind": (_changed("While", lambda n: n.attr["body"].Clear()), "a func as 'body'"),
    "an operand of another rank": (_of_rank_3, "does not take the operands of this Einsum"),
    "an operand of no node": (_changed("Tanh", lambda n: n.input.__setitem__(0, "nobody:y:0")), "own nodes"),
    "a result that is none": (_changed("Tanh", lambda n: n.input.__setitem__(0, "x:y:99999999999")), "malformed"),
    "a constant of 4 TB": (_huge, "constants? .*too large"),
    "a variable of another size": (lambda g: _variable(g, 2**40), "1099511627776"),
    "an object that is not there": (lambda g: _child(g, 10**6), "refer to none"),
    "arguments without a structure": (_unstructured, "cannot be read as a SavedModel|malformed|Expected|without names"),
    "no constant": (lambda g: _kept(g, "constant"), "no constant 'nobody'"),
    "no asset": (lambda g: _kept(g, "asset"), "names no asset"),
    "a result without a name": (
        lambda g: [
            f.output_signature.dict_value.fields.clear() for f in g.object_graph_def.concrete_functions.values()
        ],
        "other inputs or outputs",
    ),
    "an object below none": (lambda g: _child(g, -1), "refer to none"),
}


def _refused(folder: Path, message: str) -> None:
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(jfuse.JfuseError, match=message) as refused:
        jfuse.load(folder)
    assert not isinstance(refused.value, jfuse.InternalError)
    assert time.monotonic() - started < SECONDS
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < MEMORY


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name: str, saved: Path, tmp_path: Path) -> None:
    folder = copytree(saved, tmp_path / "model")
    file = folder / "saved_model.pb"
    message = message_class("SavedModel").FromString(file.read_bytes())
    change, said = GRAPHS[name]
    change(message.meta_graphs[0])
    file.write_bytes(message.SerializeToString())
    _refused(folder, said)


def _number(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def _block(entries: Sequence[tuple[int, bytes, bytes]]) -> bytes:
    """Entries of (what a key shares with the one before, the rest of it, the value), with the block's trailer."""
    data = b"".join(_number(s) + _number(len(k)) + _number(len(v)) + k + v for s, k, v in entries)
    data += struct.pack("<II", 0, 1) + b"\0"
    return data + struct.pack("<I", masked_crc32c(np.frombuffer(data, np.uint8)))


def _table(block: bytes, handles: int = 1) -> bytes:
    """A table with one block, named so often by its index."""
    size = len(block) - 5
    index = _block([(0, b"%06d" % i, _number(0) + _number(size)) for i in range(handles)])
    empty = _block([])
    footer = b"".join(map(_number, (len(block), len(empty) - 5, len(block) + len(empty), len(index) - 5)))
    return block + empty + index + footer.ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")


def _with_entry(data: bytes, key: bytes, change: Callable[[Any], object]) -> bytes:
    """The index with one entry changed."""
    entries = read_table(data, "the index")
    name = next(k for k in sorted(entries, reverse=True) if key in k)
    entry = message_class("BundleEntryProto" if name else "BundleHeaderProto").FromString(entries[name])
    change(entry)
    entries[name] = entry.SerializeToString()
    return _table(_block([(0, k, v) for k, v in sorted(entries.items())]))


def _of(entry: str, **values: int) -> Callable[[bytes], bytes]:
    def change(found: Any) -> None:
        for name, value in values.items():
            setattr(found, name, value)

    return lambda data: _with_entry(data, entry.encode(), change)


def _long_strings(data: bytes) -> bytes:
    return _with_entry(data, b"_CHECKPOINTABLE", lambda e: e.shape.dim.add(size=2**30))


INDICES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "as it is": (_of("w/"), ""),
    "bytes behind the end": (_of("w/", offset=2**62), "damaged"),
    "bytes before the begin": (_of("w/", offset=-8), "damaged"),
    "a size of 2**62": (_of("w/", size=2**62), "damaged"),
    "another type": (_of("w/", dtype=4), "damaged|bytes for"),
    "an unknown type": (_of("w/", dtype=99), "no TFLite counterpart"),
    "a resource": (_of("w/", dtype=20), "no numbers"),
    "another file": (_of("w/", shard_id=7), "file 7 of 1"),
    "a wrong checksum": (_of("w/", crc32c=1), "checksum"),
    "2**30 strings": (_long_strings, "fewer strings"),
    "objects that are numbers": (_of("_CHECKPOINTABLE", dtype=4), "damaged"),
    "keys that share a megabyte": (
        lambda data: _table(_block([(0, b"k" * 2**16, b""), *((2**16, b"", b"") for _ in range(2**16))])),
        "share more",
    ),
    "one block a thousand times": (lambda data: _table(_block([(0, b"k" * 999, b"")]), handles=1000), "overlap"),
    "a number without end": (
        lambda data: data[:-48] + b"\xff" * 40 + data[-8:],
        "64 bits",
    ),
}


def test_a_node_that_states_the_shapes_of_other_results(tmp_path: Path) -> None:
    inner = tf.function(lambda v: v * 2.0).get_concrete_function(tf.TensorSpec([3]))
    options = {"captured_inputs": [], "output_types": [tf.float32], "output_shapes": [tf.TensorShape([3])], "f": inner}
    module = tf.Module()
    spec = tf.TensorSpec([2, 3], name="x")
    module.inner = inner
    module.f = tf.function(lambda x: tf.raw_ops.MapDefun(arguments=[x], **options)[0] + 1.0, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures=module.f)
    assert "MapDefun" in str(jfuse.load(tmp_path))
    file = tmp_path / "saved_model.pb"
    message = message_class("SavedModel").FromString(file.read_bytes())
    _node(message.meta_graphs[0], "MapDefun").attr["_output_shapes"].list.shape.add().dim.add(size=4)
    file.write_bytes(message.SerializeToString())
    _refused(tmp_path, "does not know its rank")


@pytest.mark.parametrize("name", INDICES)
def test_indices(name: str, saved: Path, tmp_path: Path) -> None:
    folder = copytree(saved, tmp_path / "model")
    file = folder / "variables" / "variables.index"
    change, said = INDICES[name]
    file.write_bytes(change(file.read_bytes()))
    if name == "as it is":
        assert str(jfuse.load(folder)) == str(jfuse.load(saved))
    else:
        _refused(folder, said)


@pytest.mark.parametrize(
    "name", ["saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"]
)
@pytest.mark.parametrize("kind", ["a pipe", "a device", "nothing", "a folder"])
def test_files_that_are_none(name: str, kind: str, saved: Path, tmp_path: Path) -> None:
    folder = copytree(saved, tmp_path / "model")
    file = folder / name
    file.unlink()
    if kind == "a pipe":
        os.mkfifo(file)
    elif kind == "a device":
        file.symlink_to("/dev/zero")
    elif kind == "a folder":
        file.mkdir()
    _refused(folder, "regular file|cannot be read|is not a SavedModel")


def test_weights_that_change_while_they_are_used(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copytree(saved, tmp_path / "model")
    monkeypatch.setattr(mapped_file, "COPIED", 0)  # as if they were large
    model = jfuse.load(folder)
    lite = jfuse.lower(model)
    assert model(np.ones((2, 4), np.float32)).shape == (2, 3)
    file = folder / "variables" / "variables.data-00000-of-00001"
    with file.open("r+b") as opened:
        opened.truncate(1)  # to read the view now would end this process
    for act in (lambda: str(model), lite.to_bytes):
        with pytest.raises(jfuse.ImportFailed, match="has changed since it was loaded"):
            act()
