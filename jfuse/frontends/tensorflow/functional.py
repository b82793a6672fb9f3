"""Graphs with the control flow of TensorFlow 1 become graphs with While and If nodes and functions for their bodies.

The importer then sees one form for loops and branches. The functions refer to results by number (`node:1`),
not by the name of the result as TensorFlow's own do; only the importer reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jfuse.base.errors import ImportFailed, LowerError
from jfuse.frontends.tensorflow.frames import ALWAYS, BranchContext, Branching, Frames, Ref, TfFrame, kind_of
from jfuse.frontends.tensorflow.variables import is_write
from jfuse.tf_nodes.attributes import Library
from jfuse.tf_nodes.messages import message_class


def functional_library(graph_def: Any) -> Library:
    """The library of a GraphDef (of jfuse's class), its functions made functional when they are asked for."""
    given = Library.of(graph_def)

    def op_def(name: str) -> Any:  # a call of TensorFlow 1 is an op of the function's name
        return given.functions[name].signature if name in given.functions else given.op_def(name)

    library = Library(given.functions, op_def)
    return Library(_Functions(library), op_def)


def functional_nodes(nodes: Sequence[Any], references: Sequence[str], library: Library) -> tuple[list[Any], list[str]]:
    """Nodes and references that give the same results, with While and If nodes for loops and branches of TensorFlow 1.

    Adds the called functions to the library, which comes from `functional_library`. Linear in the number of nodes, for
    each level of nesting.
    """
    functions = library.functions
    assert isinstance(functions, _Functions)
    if not any(map(kind_of, nodes)):
        return list(nodes), list(references)
    builder = _Builder(functions.add, {n.name for n in nodes})
    return _rebuilt(nodes, references, library, builder)


def _rebuilt(
    nodes: Sequence[Any], references: Sequence[str], library: Library, builder: _Builder
) -> tuple[list[Any], list[str]]:
    """The nodes, with the needed ones rewritten, and the new references.

    The others stay for their writes and assertions.
    """
    frames = Frames(nodes, references, library.op_def)
    _refuse_writes(frames)
    top = _Block(frames, builder, None, ALWAYS, is_top=True)
    results = top.build(frames.roots)
    names = {n.name for n in top.nodes}
    return [*(n for n in nodes if n.name not in names), *top.nodes], results


class _Functions(Mapping[str, Any]):
    """The functions of a library by name, each made functional at the first look, and those that this adds."""

    def __init__(self, library: Library) -> None:
        self._given = library.functions
        self._library = library
        self._made: dict[str, Any] = {}

    def add(self, function: Any) -> None:
        """Add a function that needs no more work."""
        self._made[function.signature.name] = function

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            function = self._given[name]
            self._made[name] = function if not any(map(kind_of, function.node_def)) else self._functional(function)
        return self._made[name]

    def _functional(self, function: Any) -> Any:
        outputs = [o.name for o in function.signature.output_arg]
        taken = {n.name for n in function.node_def} | {a.name for a in function.signature.input_arg}
        builder = _Builder(self.add, taken, f"{function.signature.name}/")
        nodes, results = _rebuilt(function.node_def, [function.ret[o] for o in outputs], self._library, builder)
        changed = type(function)()
        changed.CopyFrom(function)
        del changed.node_def[:]
        changed.node_def.extend(nodes)
        for output, result in zip(outputs, results, strict=True):
            changed.ret[output] = result
        return changed

    def __iter__(self) -> Iterator[str]:
        return iter({**self._given, **self._made})

    def __len__(self) -> int:
        return len({**self._given, **self._made})


def _refuse_writes(frames: Frames) -> None:
    """Raise where a live loop or branch writes a variable: the value would have to be carried out of it."""
    for name, node in frames.nodes.items():
        if is_write(node.op) and _is_inside(frames, name):
            raise LowerError(
                "a variable is written inside of a loop or branch",
                where=name,
                remedy="carry the value through the loop instead",
            )


def _is_inside(frames: Frames, name: str) -> bool:
    """Whether the resource that a node writes reaches it through a loop or branch that the results depend on."""
    while name in frames.nodes and frames.inputs(name):
        above, _ = frames.inputs(name)[0]
        if frames.kind(name) in ("Enter", "Switch"):
            tie = frames.frame_of.get(name) if frames.kind(name) == "Enter" else frames.inputs(name)[1][0]
            return tie is not None and (isinstance(tie, TfFrame) or tie in frames.live)
        name = above
    return False


@dataclass
class _Builder:
    """Names and finished functions, shared by all blocks of one graph."""

    add: Callable[[Any], None]
    taken: set[str]
    prefix: str = ""

    def unique(self, name: str) -> str:
        """A name that no node has: `name`, or that with a number behind."""
        unused, number = name, 0
        while unused in self.taken:
            number += 1
            unused = f"{name}_{number}"
        self.taken.add(unused)
        return unused

    def function(self, name: str, arguments: Sequence[str], nodes: Sequence[Any], results: Sequence[str]) -> str:
        """Add a function to the library under a fresh name; the name."""
        function = message_class("FunctionDef")()
        function.signature.name = self.unique(self.prefix + name)
        for argument in arguments:
            function.signature.input_arg.add().name = argument
        function.node_def.extend(nodes)
        for i, result in enumerate(results):
            function.signature.output_arg.add().name = f"result_{i}"
            function.ret[f"result_{i}"] = result
        self.add(function)
        return str(function.signature.name)


@dataclass(eq=False)
class _Block:
    """The nodes of one function: those of one frame in one context. `captures` are its arguments, by their tensors.

    A loop variable inside the body is written as its Merge node, a value that enters the loop as its Enter
    node; the caller of the function passes the values for them.
    """

    frames: Frames
    builder: _Builder
    frame: TfFrame | None
    context: BranchContext
    is_top: bool = False
    nodes: list[Any] = field(default_factory=list)
    captures: dict[Ref, str] = field(default_factory=dict)
    _pending: list[str] = field(default_factory=list)
    _done: set[object] = field(default_factory=set)  # nodes, Frames and Branchings
    _names: dict[object, str] = field(default_factory=dict)  # of the nodes that stand for Frames and Branchings

    def build(self, results: Sequence[Ref]) -> list[str]:
        """Make every node that the results need; return the new references of the results."""
        references = [self.reference(r) for r in results]
        while self._pending:
            name = self._pending.pop()
            kind = self.frames.kind(name)
            what: object = name
            if kind == "Exit":
                what = self.frames.left_frame(name)
            elif kind == "Merge":
                what = self.frames.branching_of[name]
            if what not in self._done:
                self._done.add(what)
                self._make(what)
        return references

    def arguments(self, captured: Iterable[Ref]) -> list[str]:
        """Names for these arguments, those that the block reads among them."""
        return [self.captures.get(ref, f"unused_{i}") for i, ref in enumerate(captured)]

    def reference(self, ref: Ref) -> str:
        """The name of a tensor in this block; a missing tensor is made or captured."""
        name, index = self._source(ref)
        if self._is_local(name):
            self._pending.append(name)
            return self._result_of(name, index)
        if not self.is_top:
            return self.captures.setdefault((name, index), f"captured_{len(self.captures)}")
        if name in self.frames.nodes:
            raise _outside(name)
        return name if index == 0 else f"{name}:{index}"  # an argument of the function itself

    def _source(self, ref: Ref) -> Ref:
        """Follow a tensor back through nodes that only pass it on."""
        frames = self.frames
        while True:
            name, _ = ref
            kind = frames.kind(name)
            if kind == "Switch":
                self._check_side(ref)
            elif kind not in ("NextIteration", "LoopCond"):
                return ref
            ref = frames.inputs(name)[0]

    def _check_side(self, ref: Ref) -> None:
        frames, (name, index) = self.frames, ref
        taken = index == 1 if frames.leaves_loop(name) else self.context.is_within(frames.context_of(ref))
        if not taken:
            raise _outside(name)

    def _is_local(self, name: str) -> bool:
        frames = self.frames
        if name not in frames.nodes or frames.frame_of[name] is not self.frame:
            return False
        if frames.kind(name) == "Enter" or frames.is_loop_variable(name):
            return False
        context = frames.context_of_node[name]
        if context is self.context:
            return True
        unclear = frames.unclear(name)
        if unclear is not None:
            raise ImportFailed(
                "a value depends on branches that cannot be distinguished",
                where=unclear,
                remedy="load the model in TensorFlow and save it again after tf.compat.v1.enable_control_flow_v2()",
            )
        if not self.context.is_within(context):
            raise _outside(name)
        return False

    def _result_of(self, name: str, index: int) -> str:
        frames, kind = self.frames, self.frames.kind(name)
        if kind == "Exit":
            frame = frames.left_frame(name)
            return f"{self._name(frame)}:{self._variable(frame, name)}"
        if kind == "Merge":
            if index:
                raise ImportFailed("the number of the branch that was taken is read from a Merge node", where=name)
            branching = frames.branching_of[name]
            return f"{self._name(branching)}:{list(branching.results).index(name)}"
        return name if index == 0 else f"{name}:{index}"

    def _name(self, what: TfFrame | Branching) -> str:
        """The name of the node of a loop or a branching in this block."""
        if what not in self._names:
            inside = what.name if isinstance(what, TfFrame) else next(iter(what.results))
            self._names[what] = self.builder.unique(inside.rpartition("/")[0] or inside)
        return self._names[what]

    def _variable(self, frame: TfFrame, exit_: str) -> int:
        """Which of its variables a loop ends with at an Exit node."""
        switch, index = self.frames.inputs(exit_)[0]
        merge = self.frames.inputs(switch)[0][0] if self.frames.kind(switch) == "Switch" else ""
        if index or merge not in frame.variables:
            raise ImportFailed("a loop results in something that is not one of its variables", where=exit_)
        return list(frame.variables).index(merge)

    def _make(self, what: object) -> None:
        if isinstance(what, TfFrame):
            self._loop(what)
        elif isinstance(what, Branching):
            self._branch(what)
        else:
            self._copy(str(what))

    def _copy(self, name: str) -> None:
        node = self.frames.nodes[name]
        data = [self.reference(r) for r in self.frames.inputs(name)]
        if self.is_top and list(node.input[: len(data)]) == data:
            self.nodes.append(node)  # as it is: constants may be large
            return
        copy = type(node)()
        copy.CopyFrom(node)
        # In a function no order of effects is left to keep, and what guarded a branch is the branch itself.
        copy.input[:] = [*data, *(i for i in node.input if self.is_top and i.startswith("^"))]
        self.nodes.append(copy)

    def _branch(self, branching: Branching) -> None:
        name, frames = self._name(branching), self.frames
        blocks, results = [], []
        for position, side in enumerate((True, False)):
            block = _Block(frames, self.builder, self.frame, frames.branch(self.context, branching.pred, side))
            results.append(block.build([pair[position] for pair in branching.results.values()]))
            blocks.append(block)
        captured = list(dict.fromkeys(ref for block in blocks for ref in block.captures))
        functions = {}
        for attr, block, outputs in zip(("then_branch", "else_branch"), blocks, results, strict=True):
            functions[attr] = self.builder.function(f"{name}_{attr}", block.arguments(captured), block.nodes, outputs)
        self._call("If", name, [branching.pred, *captured], functions)

    def _loop(self, frame: TfFrame) -> None:
        if frame.condition is None:
            raise ImportFailed(f"the loop {frame.name!r} has no condition")
        name = self._name(frame)
        cond, body = (_Block(self.frames, self.builder, frame, ALWAYS) for _ in range(2))
        flag = cond.build([frame.condition])
        following = body.build([v.following for v in frame.variables.values()])
        variables: list[Ref] = [(merge, 0) for merge in frame.variables]
        captured = list(dict.fromkeys([*variables, *cond.captures, *body.captures]))
        passed = body.arguments(captured)
        functions = {
            "cond": self.builder.function(f"{name}_cond", cond.arguments(captured), cond.nodes, flag),
            "body": self.builder.function(f"{name}_body", passed, body.nodes, [*following, *passed[len(variables) :]]),
        }
        self._call("While", name, [self._entering(frame, ref) for ref in captured], functions)

    def _entering(self, frame: TfFrame, ref: Ref) -> Ref:
        """Initial value of a loop input: the tensor that enters the loop."""
        name, _ = ref
        if self.frames.is_loop_variable(name):
            return self.frames.inputs(frame.variables[name].enter)[0]
        if self.frames.kind(name) != "Enter":
            return ref
        if not self.frames.nodes[name].attr["is_constant"].b:
            raise ImportFailed("a value enters a loop for its first turn only", where=name)
        return self.frames.inputs(name)[0]

    def _call(self, op: str, name: str, operands: Sequence[Ref], functions: Mapping[str, str]) -> None:
        node = message_class("NodeDef")(name=name, op=op, input=[self.reference(r) for r in operands])
        for attr, function in functions.items():
            node.attr[attr].func.name = function
        self.nodes.append(node)


def _outside(name: str) -> ImportFailed:
    return ImportFailed(
        "a value that only one branch or turn makes is read outside of it",
        where=name,
        remedy="make the result of tf.cond or tf.while_loop a result of the model, not a value inside it",
    )
