"""Nodes that read or write outside of the graph: files, sockets, Python code. Checks sources for them.

A SavedModel or GraphDef is a program. TensorFlow runs parts of it while it loads it (initializers of tables and
variables), and jfuse runs its functions to compare answers. Nothing in a file that was read may then reach a file of
the machine, except those that the SavedModel itself brings along.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.tf_nodes.attributes import MOST_CONSTANT, stated_bytes

# TensorFlow 2.21's registry of 1,910 ops was searched for what takes a path, an address or a Python function.
_OUTSIDE = re.compile(
    r"(Eager)?PyFunc(Stateless)?|ReadFile|WriteFile|RecordInput|DumpTensor|CalibrationStatisticsSaver|"
    r"(Identity|WholeFile|TextLine|TFRecord|FixedLengthRecord|LMDB)Reader(V2)?|Reader[A-Z]\w+|"
    r"(Experimental)?((Matching|Random)Files\w*|MatchingFiles|\w*(TextLine|Record|CSV|LMDB|Sql|Generator|Cache|Snapshot)"
    r"\w*Dataset\w*|(Load|Save|Register)Dataset(V2)?|DatasetToTFRecord|\w*Snapshot\w*)|"
    r"Create\w*SummaryWriter|CreateSummary\w+|StatsAggregatorSetSummaryWriter|Write\w*Summary|ImportEvent|"
    r"Save(V2|Slices)?|(DTensor)?Restore(V2|Slice)?|MergeV2Checkpoints|GenerateVocabRemapping|LoadAndRemapMatrix|"
    r"DistributedSave|Debug(Identity|NanCount|NumericSummary)\w*|FileSystemSetConfiguration|"
    r"Rpc\w+|_?(Host)?(Send|Recv)|RemoteCall|TPUCompile"
)
_FROM_FILES = frozenset({"InitializeTableFromTextFile", "InitializeTableFromTextFileV2"})
_STREAMS = frozenset({"stdout", "stderr", "log(info)", "log(warning)", "log(error)"})
_WHERE_ONLY = 3  # nodes that one message names
_REMEDY = "unsafe=True for a source whose author you trust"


def check_effects(nodes: Iterable[Any], functions: Mapping[str, Any], source: str, assets: Sequence[str] = ()) -> None:
    """Raise ImportFailed where nodes, or the functions that they call, work outside of the graph, or fill the memory.

    functions: the library, FunctionDefs by name. assets: names of constants that are files of the source itself.
    """
    reached = list(_reached(nodes, functions))
    size = sum(stated_bytes(node.attr["value"].tensor) for node, _, _ in reached if node.op == "Const")
    if size > MOST_CONSTANT:
        expected = f"at most {MOST_CONSTANT:,} bytes"
        raise ImportFailed(f"the constants of {source} are too large", expected=expected, found=f"{size:,} bytes")
    effects = [f"{node.op} at {where}" for node, where, known in reached if _works_outside(node, known, assets)]
    if effects:
        more = f", and {len(effects) - _WHERE_ONLY} more" if len(effects) > _WHERE_ONLY else ""
        raise ImportFailed(
            f"{source} is not loaded: it works on files, sockets or Python code of this machine",
            found=", ".join(effects[:_WHERE_ONLY]) + more,
            remedy=_REMEDY,
        )


def check_saved_model(path: Path, message: Any) -> None:
    """Raise ImportFailed where loading a SavedModel, or running its signatures, would work outside of its folder.

    message: of its file.
    Functions that only save checkpoints are left out: nothing calls them.
    """
    for graph in message.meta_graphs:
        _check_assets(path, graph.asset_file_def)
        functions = {f.signature.name: f for f in graph.graph_def.library.function}
        assets = [a.tensor_info.name.split(":")[0] for a in graph.asset_file_def]
        if graph.HasField("object_graph_def"):  # TensorFlow 2 loads the functions that objects name, and no other
            for name in sorted(_of_objects(graph.object_graph_def) & functions.keys()):
                check_effects(functions[name].node_def, functions, str(path), assets)
        else:
            check_effects(_without_saving(graph), functions, str(path), assets)


def _check_assets(path: Path, assets: Iterable[Any]) -> None:
    for asset in assets:
        name = PurePosixPath(asset.filename)
        try:
            inside = (path / "assets" / asset.filename).resolve().is_relative_to(path.resolve())
        except (OSError, ValueError, RuntimeError):  # no name of a file, or links in a circle
            inside = False
        if name.is_absolute() or ".." in name.parts or not inside:
            raise ImportFailed(f"{path} names a file outside of its folder", found=repr(asset.filename), remedy=_REMEDY)


def _reached(nodes: Iterable[Any], functions: Mapping[str, Any]) -> Iterator[tuple[Any, str, Mapping[str, Any]]]:
    """The nodes and those of all functions that they call, with their places and the nodes around each by name."""
    waiting: list[tuple[str, list[Any]]] = [("", list(nodes))]
    seen: set[str] = set()
    while waiting:
        prefix, group = waiting.pop()
        nodes_by_name = {node.name: node for node in group}
        for node in group:
            yield node, f"{prefix}{node.name}", nodes_by_name
            for name in _called(node):
                if name in functions and name not in seen:
                    seen.add(name)
                    waiting.append((f"{name}/", list(functions[name].node_def)))


def _called(node: Any) -> list[str]:
    functions = [a.func for a in node.attr.values() if a.HasField("func")]
    functions += [f for a in node.attr.values() for f in a.list.func]
    return [node.op, *(f.name for f in functions)]


def _works_outside(node: Any, known: Mapping[str, Any], assets: Sequence[str]) -> bool:
    if node.op in _FROM_FILES:
        maker = known.get(node.input[1].split(":")[0].lstrip("^"))
        # An operand of the function is an asset, which TensorFlow hands over; a constant is any path.
        return maker is not None and maker.op != "Placeholder" and maker.name not in assets
    if node.op == "PrintV2":
        return node.attr["output_stream"].s.decode(errors="replace") not in {*_STREAMS, ""}
    return _OUTSIDE.fullmatch(node.op) is not None


def _of_objects(objects: Any) -> set[str]:
    """The functions of a SavedModel's objects, but for those that only save."""
    names = {i: n.bare_concrete_function.concrete_function_name for i, n in enumerate(objects.nodes)}
    saving = {names.get(s.save_function) for n in objects.nodes for s in n.saveable_objects.values()}
    called = {name for n in objects.nodes for name in n.function.concrete_functions}
    called |= {names.get(s.restore_function, "") for n in objects.nodes for s in n.saveable_objects.values()}
    return {name for name in objects.concrete_functions if name in called or name not in saving}


def _without_saving(graph: Any) -> list[Any]:
    """The nodes of a graph of TensorFlow 1, but for the saver's: its restoring half may read checkpoints only."""
    nodes = {node.name: node for node in graph.graph_def.node}
    saved = graph.saver_def.save_tensor_name.split(":")[0]
    restored = _ancestors(nodes, graph.saver_def.restore_op_name)
    ends = [i for s in graph.signature_def.values() for t in s.outputs.values() for i in [t.name.split(":")[0]]]
    ends += [i for c in graph.collection_def.values() for i in c.node_list.value]
    running = set().union(*(_ancestors(nodes, end) for end in ends)) if ends else set()
    only_saved = _ancestors(nodes, saved) - running - restored
    return [n for name, n in nodes.items() if name not in only_saved and not (name in restored and n.op == "RestoreV2")]


def _ancestors(nodes: Mapping[str, Any], end: str) -> set[str]:
    """The nodes that one node needs, control edges included, and itself."""
    ancestors: set[str] = set()
    waiting = [end.split(":")[0].lstrip("^")]
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in ancestors:
            ancestors.add(name)
            waiting += [i.split(":")[0].lstrip("^") for i in nodes[name].input]
    return ancestors
