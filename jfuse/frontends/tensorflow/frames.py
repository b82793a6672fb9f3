"""Analyse TensorFlow 1 control flow: frames, the contexts that Switch nodes open, the branches that each Merge joins.

A node belongs to the frame that its Enter nodes opened; in it, to a context: the branches taken on the way. Control
edges count here, as a constant in a branch or a loop has no other tie to it.
Source: "Implementation of Control Flow in TensorFlow" (white paper); tensorflow/core/common_runtime/executor.cc
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.tf_nodes.attributes import data_inputs, output_offset, split_reference

Ref = tuple[str, int]
"""A tensor: the node that makes it, and the number of its result."""

CONTROL = frozenset({"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"})
"""The ops of which TensorFlow 1 makes loops and branches."""


def kind_of(node: Any) -> str:
    """The control-flow op of a node; "" for any other. The ops on reference variables mean the same."""
    op = str(node.op).removeprefix("Ref")
    return op if op in CONTROL else ""


@dataclass(frozen=True, eq=False)
class BranchContext:
    """The branches that must be taken for a value to exist: `pred` with the value `side`, within `parent`."""

    parent: BranchContext | None = None
    pred: Ref = ("", 0)
    side: bool = False
    depth: int = 0

    def is_within(self, other: BranchContext) -> bool:
        """Whether this context lies within `other`."""
        here: BranchContext | None = self
        while here is not None and here.depth > other.depth:
            here = here.parent
        return here is other


ALWAYS = BranchContext()
_UNCLEAR = BranchContext(depth=-1)  # branches meet in a way that no tf.cond makes; an error only where it is needed


@dataclass(frozen=True)
class LoopVariable:
    """A value that a loop carries: the Enter that starts it, and its value for the next turn."""

    enter: str
    following: Ref


@dataclass(eq=False)
class TfFrame:
    """One loop. `variables` by their Merge nodes; `condition` is the operand of its LoopCond node."""

    name: str
    parent: TfFrame | None
    depth: int
    enters: list[str] = field(default_factory=list)
    variables: dict[str, LoopVariable] = field(default_factory=dict)
    condition: Ref | None = None


@dataclass(eq=False)
class Branching:
    """Merge nodes that one If can replace: equal predicate and context, and none needs another's result.

    results: by Merge node, its operands for a true and a false predicate.
    """

    context: BranchContext
    pred: Ref
    number: int
    results: dict[str, tuple[Ref, Ref]] = field(default_factory=dict)


class Frames:
    """The loops and branches of those nodes of one graph that some results depend on."""

    def __init__(self, nodes: Iterable[Any], roots: Sequence[str], op_def: Callable[[str], Any]) -> None:
        self.nodes: Mapping[str, Any] = {n.name: n for n in nodes}
        self._op_def = op_def
        self._inputs: dict[str, tuple[Ref, ...]] = {}
        self.roots = [self.ref(r) for r in roots]
        self.live = self._reached(name for name, _ in self.roots)
        self.frame_of: dict[str, TfFrame | None] = {}
        self._frames: dict[tuple[TfFrame | None, str], TfFrame] = {}
        self.context_of_node: dict[str, BranchContext] = {}
        self._contexts: dict[tuple[BranchContext, Ref, bool], BranchContext] = {}
        self.branching_of: dict[str, Branching] = {}
        self._latest: dict[tuple[TfFrame | None, BranchContext, Ref], Branching] = {}
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._count = 0
        self._find_frames()
        self._find_contexts()

    def ref(self, reference: str) -> Ref:
        """A reference as node and number."""
        name, output, index = split_reference(reference)
        node = self.nodes.get(name)
        if not output or node is None:
            return name, index
        return name, output_offset(node, self._op_def(node.op), output) + index

    def inputs(self, name: str) -> tuple[Ref, ...]:
        """The tensors that a node reads."""
        if name not in self._inputs:
            self._inputs[name] = tuple(self.ref(i) for i in data_inputs(self.nodes[name]))
        return self._inputs[name]

    def kind(self, name: str) -> str:
        """As `kind_of`; "" for an argument of a function."""
        return kind_of(self.nodes[name]) if name in self.nodes else ""

    def _reached(self, names: Iterable[str]) -> set[str]:
        """The nodes that these need for their values."""
        reached: set[str] = set()
        pending = [n for n in names if n in self.nodes]
        while pending:
            name = pending.pop()
            if name not in reached:
                reached.add(name)
                pending += [n for n, _ in self.inputs(name) if n in self.nodes and n not in reached]
        return reached

    def _needs(self, name: str) -> Iterator[str]:
        for other, _ in self.inputs(name):
            if other in self.nodes and not self._is_back_edge(name, other):
                yield other
        for reference in self.nodes[name].input:
            if reference.startswith("^") and reference[1:] in self.nodes:
                yield reference[1:]

    def _is_back_edge(self, name: str, other: str) -> bool:
        return self.kind(name) == "Merge" and self.kind(other) == "NextIteration"

    def _roots_with_turns(self) -> list[str]:
        """Roots of an ordering: the results, and the values that live loops carry from turn to turn."""
        turns = [n for n in self.nodes if n in self.live and self.kind(n) == "NextIteration"]
        return [n for n, _ in self.roots if n in self.nodes] + turns

    # Frames

    def _find_frames(self) -> None:
        for name in ordered(self._roots_with_turns(), self._needs):
            frame = self.frame_of[name] = self._frame(name)
            if name in self.live and self.kind(name) == "Merge":
                self._note_variable(frame, name)
            elif name in self.live and frame is not None:
                self._note_role(frame, name)

    def _frame(self, name: str) -> TfFrame | None:
        outer: TfFrame | None = None
        for other in self._needs(name):
            outer = _deeper(outer, self.frame_of[other])
        kind = self.kind(name)
        if kind == "Enter":
            return self._entered(outer, name)
        if kind == "Exit":
            if outer is None:
                raise ImportFailed("an Exit node stands outside of any loop", where=name)
            return outer.parent
        for other, _ in self.inputs(name):
            frame = self.frame_of.get(other)
            if not self._is_back_edge(name, other) and not _contains(frame, outer):
                raise ImportFailed("values of different loops meet", where=name, remedy=_BROKEN)
        return outer

    def _entered(self, outer: TfFrame | None, name: str) -> TfFrame:
        key = (outer, self.nodes[name].attr["frame_name"].s.decode())
        if key not in self._frames:
            self._frames[key] = TfFrame(key[1], outer, 1 if outer is None else outer.depth + 1)
        return self._frames[key]

    def _note_role(self, frame: TfFrame, name: str) -> None:
        kind = self.kind(name)
        if kind == "Enter":
            frame.enters.append(name)
        elif kind == "LoopCond":
            if frame.condition is not None:
                raise ImportFailed(f"the loop {frame.name!r} has two conditions", where=name, remedy=_BROKEN)
            frame.condition = self.inputs(name)[0]

    def _note_variable(self, frame: TfFrame | None, name: str) -> None:
        sources = [n for n, _ in self.inputs(name)]
        turns = [n for n in sources if self.kind(n) == "NextIteration"]
        enters = [n for n in sources if self.kind(n) == "Enter"]
        if frame is not None and len(turns) == len(enters) == 1 and len(sources) == 2:
            frame.variables[name] = LoopVariable(enters[0], self.inputs(turns[0])[0])
        elif turns or enters:
            raise ImportFailed(
                "a loop variable has no start or no next value", where=name, found=str(sources), remedy=_BROKEN
            )

    def is_loop_variable(self, name: str) -> bool:
        """Whether a node is the Merge at which a loop variable comes round."""
        frame = self.frame_of.get(name)
        return frame is not None and name in frame.variables

    def _comes_round(self, name: str) -> bool:
        """Whether a loop variable comes round at a node, also one that only control edges lead to: a turn's counter."""
        return self.kind(name) == "Merge" and any(self.kind(n) == "NextIteration" for n, _ in self.inputs(name))

    def leaves_loop(self, name: str) -> bool:
        """Whether a node is a Switch between another turn and the end of its loop."""
        return self.kind(name) == "Switch" and self.kind(self.inputs(name)[1][0]) == "LoopCond"

    def left_frame(self, name: str) -> TfFrame:
        """The frame that an Exit node leaves."""
        frame = self.frame_of[self.inputs(name)[0][0]]
        assert frame is not None, "checked when frames were found"
        return frame

    # Contexts

    def context_of(self, ref: Ref) -> BranchContext:
        """The context of a tensor, within its frame."""
        name, index = ref
        context = self.context_of_node.get(name, ALWAYS)
        if self.kind(name) != "Switch" or self.leaves_loop(name) or context is _UNCLEAR:
            return context
        return self.branch(context, self.predicate(self.inputs(name)[1]), bool(index))

    def branch(self, context: BranchContext, pred: Ref, side: bool) -> BranchContext:
        """The context of one branch on `pred`; always the same object."""
        key = (context, pred, side)
        if key not in self._contexts:
            self._contexts[key] = BranchContext(context, pred, side, context.depth + 1)
        return self._contexts[key]

    def predicate(self, ref: Ref) -> Ref:
        """A predicate without the Identity nodes in front: tf.cond uses it with and without."""
        while ref[0] in self.nodes and self.nodes[ref[0]].op == "Identity":
            ref = self.inputs(ref[0])[0]
        return ref

    def unclear(self, name: str) -> str | None:
        """The node at which branches meet as no tf.cond makes them meet, where one depends on it."""
        unclear_node = None
        while self.context_of_node.get(name) is _UNCLEAR:
            unclear_node = name
            name = next((n for n, _ in self._local_inputs(name) if self.context_of_node.get(n) is _UNCLEAR), "")
        return unclear_node

    def _needs_with_frames(self, name: str) -> Iterator[str]:
        yield from self._needs(name)
        if self.kind(name) == "Exit":  # the loop as a whole comes before whatever it results in
            yield from self.left_frame(name).enters

    def _find_contexts(self) -> None:
        for name in ordered(self._roots_with_turns(), self._needs_with_frames):
            refs = self._local_inputs(name)
            if self.kind(name) == "Merge" and not self._comes_round(name):
                self._merge(name)
                continue
            context = self.context_of_node[name] = _joined([self.context_of(r) for r in refs])
            self._stamps[name] = self._stamp([n for n, _ in refs], context)

    def _local_inputs(self, name: str) -> list[Ref]:
        """References that place a node in a context of its frame; for an Exit, the inputs of the loop it leaves."""
        kind, frame = self.kind(name), self.frame_of[name]
        if kind == "Enter" or self._comes_round(name):
            return []
        names = self.left_frame(name).enters if kind == "Exit" else [name]
        refs = [r for n in names for r in self.inputs(n)]
        refs += [(i[1:], 0) for n in names for i in self.nodes[n].input if i.startswith("^") and i[1:] in self.nodes]
        return [r for r in refs if r[0] in self.nodes and self.frame_of.get(r[0]) is frame]

    def _merge(self, name: str) -> None:
        refs = self.inputs(name)
        contexts = [self.context_of(r) for r in refs]
        deep = max(contexts, key=lambda c: c.depth)
        if len(refs) != 2 or deep.parent is None or not _are_branches(deep, contexts):
            self.context_of_node[name], self._stamps[name] = _UNCLEAR, (0,)
            return
        context = self.context_of_node[name] = deep.parent
        true = refs[contexts.index(deep)] if deep.side else refs[1 - contexts.index(deep)]
        false = refs[1] if true is refs[0] else refs[0]
        stamp = self._stamp([n for n, _ in refs], context)
        key = (self.frame_of[name], context, deep.pred)
        branching = self._latest.get(key)
        # What a Merge depends on has smaller numbers than the If that it becomes a result of, so no If needs itself.
        if branching is None or branching.number <= stamp[-1]:
            self._count += 1
            branching = self._latest[key] = Branching(context, deep.pred, self._count)
        if name in self.live:
            branching.results[name] = (true, false)
        self.branching_of[name] = branching
        self._stamps[name] = (*stamp[:-1], branching.number)

    def _stamp(self, names: Iterable[str], context: BranchContext) -> tuple[int, ...]:
        """For each level of branches around a node, the latest If of that level that it depends on."""
        stamps = [self._stamps[n] for n in names if n in self._stamps]
        levels = range(max(context.depth, 0) + 1)
        return tuple(max((s[k] for s in stamps if k < len(s)), default=0) for k in levels)


_BROKEN = "load the model in TensorFlow and save it again: tf.while_loop and tf.cond do not write such control flow"


def ordered(roots: Iterable[str], needs: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """The names that `roots` need, each after its own needs; without recursion, as graphs are deep."""
    done: set[str] = set()
    open_: set[str] = set()
    for root in roots:
        pending = [(root, False)]
        while pending:
            name, is_ready = pending.pop()
            if is_ready:
                done.add(name)
                yield name
            elif name in open_ and name not in done:
                raise ImportFailed("a value depends on itself without a loop", where=name, remedy=_BROKEN)
            elif name not in done:
                open_.add(name)
                pending.append((name, True))
                pending += [(n, False) for n in needs(name) if n not in done]


def _deeper(a: TfFrame | None, b: TfFrame | None) -> TfFrame | None:
    return b if a is None or (b is not None and b.depth > a.depth) else a


def _contains(outer: TfFrame | None, inner: TfFrame | None) -> bool:
    while inner is not None and inner is not outer:
        inner = inner.parent
    return inner is outer


def _joined(contexts: Sequence[BranchContext]) -> BranchContext:
    """The context of a node that needs values of all of these."""
    deepest = max(contexts, key=lambda c: c.depth, default=ALWAYS)
    clear = all(c is not _UNCLEAR and deepest.is_within(c) for c in contexts)
    return deepest if clear else _UNCLEAR


def _are_branches(deep: BranchContext, contexts: Sequence[BranchContext]) -> bool:
    """Whether two contexts are the two sides of one branch; a constant may have lost its tie to its side."""
    a, b = contexts
    other = b if a is deep else a
    opposite = other.parent is deep.parent and other.pred == deep.pred and other.side is not deep.side
    return opposite or (other is deep.parent and a is not b)
