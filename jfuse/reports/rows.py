"""A graph as rows from top to bottom: its inputs, its operations with their bodies, its outputs.

Operations stand in the order in which they run, so a row's place says when, and every value flows downwards. Runs of
operations from one part of the source, and the bodies of an operation, are blocks: a row with the rows that it holds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Source, Var
from jfuse.ir.literals import format_const, format_value
from jfuse.passes.states.layers import layer_of

_BODIES = {"while": ("condition", "body"), "if": ("then", "else")}
_FIRST = 8  # numbers of a large constant that are shown
_LONGEST = 300  # characters of a value: options of custom operators can be of any size


@dataclass
class PageRow:
    """One row. kind: "input", "op", "scope", "body", "return" or "output".

    end: the number of the row after the last one that stands within this one. path: where an operation stands, as
    `EquationError` has it. results: the types. reads: for each operand its name, its type, and the number of the row
    that it comes from with the place among that row's results, or else its value. column: the lane of the first result.
    bytes: of the constants that an operation reads. folded: whether a block is folded when the page opens.
    """

    kind: str
    label: str
    depth: int
    end: int = 0
    path: tuple[int, ...] = ()
    results: list[dict[str, str]] = field(default_factory=list)
    reads: list[dict[str, Any]] = field(default_factory=list)
    options: list[dict[str, Any]] = field(default_factory=list)
    source: str = ""
    node: str = ""
    layer: str = ""
    effects: tuple[str, ...] = ()
    mark: str = ""
    column: int = 0
    bytes: int = 0
    folded: bool = False


@dataclass
class PageValue:
    """One value on its way down. row: where it begins, column: its lane, readers: the rows that read it, in order."""

    row: int
    index: int
    column: int = 0
    readers: list[int] = field(default_factory=list)


@dataclass
class Rows:
    """All rows of one graph, and the values between them in the order in which they begin."""

    rows: list[PageRow] = field(default_factory=list)
    values: list[PageValue] = field(default_factory=list)

    def row_of(self) -> dict[tuple[int, ...], int]:
        """The number of the row of each operation, by its path."""
        return {row.path: i for i, row in enumerate(self.rows) if row.kind == "op"}


def rows_of(graph: Graph, input_names: Sequence[str] = (), output_names: Sequence[str] = ()) -> Rows:
    """The rows of a graph. Inputs and outputs beyond the names given are what the graph keeps between calls."""
    builder = _Builder()
    for i, var in enumerate(graph.inputs):
        builder.add(PageRow("input", input_names[i] if i < len(input_names) else var.name or f"kept {i}", 0), (var,))
    builder.equations(graph, (), 0, ())
    for i, atom in enumerate(graph.outputs):
        name = output_names[i] if i < len(output_names) else f"kept {i - len(output_names)}"
        builder.add(PageRow("output", name, 0), (), [("", atom)])
    return builder.found


class _Builder:
    def __init__(self) -> None:
        self.found = Rows()
        self._values: dict[Var, PageValue] = {}

    def add(self, row: PageRow, results: Sequence[Var], operands: Sequence[tuple[str, Atom | None]] = ()) -> int:
        """Append a row that binds these results and reads these operands; its number."""
        number = len(self.found.rows)
        row.end = number + 1
        row.reads = [self._read(number, name, atom) for name, atom in operands]
        for i, var in enumerate(results):
            row.results.append({"name": var.name or "", "type": str(var.type)})
            value = self._values[var] = PageValue(number, i)
            self.found.values.append(value)
        self.found.rows.append(row)
        return number

    def _read(self, reader: int, name: str, atom: Atom | None) -> dict[str, Any]:
        if atom is None:
            return {"name": name, "type": "", "value": "omitted"}
        if isinstance(atom, Const):
            return {"name": atom.name or name, "type": str(atom.type), "value": _cut(_constant(atom))}
        value = self._values.get(atom)
        if value is None:  # only in graphs that the checker refuses
            return {"name": name, "type": str(atom.type), "value": "?"}
        if not value.readers or value.readers[-1] != reader:
            value.readers.append(reader)
        return {"name": name, "type": str(atom.type), "row": value.row, "result": value.index}

    def equations(self, graph: Graph, path: tuple[int, ...], depth: int, outside: tuple[str, ...]) -> None:
        """The rows of all equations. outside: the scope that encloses the graph, which its blocks do not repeat."""
        for run in runs([scope_of(eqn.source) for eqn in graph.eqns], outside):
            self._run(run, graph, path, depth)

    def _run(self, run: ScopeRun, graph: Graph, path: tuple[int, ...], depth: int) -> None:
        if not run.name:
            self._plain(run, graph, path, depth)
            return
        number = self.add(PageRow("scope", run.name, depth), ())
        for inner in run.inner:
            self._run(inner, graph, path, depth + 1)
        self.found.rows[number].end = len(self.found.rows)

    def _plain(self, run: ScopeRun, graph: Graph, path: tuple[int, ...], depth: int) -> None:
        """Operations without blocks but for steps that repeat, which are one, folded, with a block for each step."""
        at = run.start
        keys = [(eqn.op.name, str(eqn.source)) for eqn in graph.eqns]
        for repeat in repeats(keys, run.start, run.stop):
            self._equations(graph, range(at, repeat.start), path, depth)
            text = f"{repeat.steps} steps of {repeat.period} operations"
            whole = self.add(PageRow("scope", text, depth, folded=True), ())
            for step in range(repeat.steps):
                number = self.add(PageRow("scope", f"step {step + 1} of {repeat.steps}", depth + 1, folded=True), ())
                first = repeat.start + step * repeat.period
                self._equations(graph, range(first, first + repeat.period), path, depth + 2)
                self.found.rows[number].end = len(self.found.rows)
            self.found.rows[whole].end = len(self.found.rows)
            at = repeat.stop
        self._equations(graph, range(at, run.stop), path, depth)

    def _equations(self, graph: Graph, numbers: range, path: tuple[int, ...], depth: int) -> None:
        for i in numbers:
            self._equation(graph.eqns[i], (*path, i), depth)

    def _equation(self, eqn: Eqn, path: tuple[int, ...], depth: int) -> None:
        composite = eqn.op.name == "composite"
        row = PageRow(
            "op",
            str(eqn.params.get("name", "composite")) if composite else eqn.op.name,
            depth,
            path=path,
            options=_options(eqn),
            source=str(eqn.source),
            node="/".join((*eqn.source.stack, eqn.source.node)),
            layer=layer_of(eqn.source, ()),
            effects=eqn.effects,
            mark="composite" if composite else "",
            bytes=sum({a.memory: _bytes(a) for a in eqn.inputs if isinstance(a, Const)}.values()),
        )
        self.add(row, eqn.outputs, list(zip(_operand_names(eqn), eqn.inputs, strict=False)))
        roles = _BODIES.get(eqn.op.name, ())
        inside = tuple(part for part in (*scope_of(eqn.source), eqn.source.node.rpartition("/")[2]) if part)
        for i, body in enumerate(eqn.bodies):
            label = roles[i] if i < len(roles) else "body"
            start = self.add(PageRow("body", label, depth + 1, node=body.name), body.inputs)
            self.equations(body, (*path, i), depth + 2, inside)
            self.add(PageRow("return", "return", depth + 2), (), [("", atom) for atom in body.outputs])
            self.found.rows[start].end = len(self.found.rows)
        row.end = len(self.found.rows)


def _constant(atom: Const) -> str:
    """A constant as the text form has it; of one that it only names by digest the range and the first numbers too."""
    text, array = format_const(atom), atom.array
    if not text.startswith("const<") or array.dtype.kind not in "fiu" or not array.size:
        return text
    first = " ".join(f"{value:.6g}" for value in array.ravel()[:_FIRST])
    return f"{text}: from {array.min():.6g} to {array.max():.6g}, mean {array.mean(dtype=float):.4g}; {first} …"


def _bytes(atom: Const) -> int:
    return 0 if atom.array.dtype == object else atom.array.nbytes


def _operand_names(eqn: Eqn) -> Iterator[str]:
    """Yield the declared name of each operand; the last name is repeated."""
    declared = [operand.name for operand in eqn.op.operands] or list(eqn.params.get("arguments", ()))
    for i in range(len(eqn.inputs)):
        yield str(declared[min(i, len(declared) - 1)]) if declared else str(i)


def _options(eqn: Eqn) -> list[dict[str, Any]]:
    """Each parameter with its text, and whether it is the op's default."""
    defaults = eqn.op.defaults
    texts = []
    for name in [*(k for k in defaults if k in eqn.params), *sorted(eqn.params.keys() - defaults.keys())]:
        text = format_value(eqn.params[name])
        usual = defaults.get(name, ...) is not ... and format_value(defaults[name]) == text
        texts.append({"name": name, "value": _cut(text), "default": usual})
    return texts


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


# Groups operations by the scopes of the user's model that their sources share.

Scope = tuple[str, ...]
_DEEPEST = 8  # blocks in blocks; what lies deeper stands in the last one


@dataclass
class ScopeRun:
    """Operations `start` up to `stop`. name: of the scope, with `inner` runs; "" for operations that need no block."""

    start: int
    stop: int
    name: str = ""
    inner: list[ScopeRun] = field(default_factory=list)


def scope_of(source: Source) -> Scope:
    """The functions and layers around a node, outermost first."""
    path = "/".join((*source.stack, source.node)).split("/")
    return tuple(part for part in path[:-1] if part)


def runs(scopes: Sequence[Scope], outside: Scope = ()) -> list[ScopeRun]:
    """The operations in order as runs, nested by scope.

    A scope that holds a single operation, or all of them, makes no block; one that holds just one other scope is told
    together with it (`encoder/block1`). outside: a scope around them all, which is not told again.
    """
    common = _common(scopes, 0, len(scopes), 0)
    shared = len(outside) if all(scope[: len(outside)] == outside for scope in scopes) else 0
    return _split(scopes, 0, len(scopes), max(common, shared), _DEEPEST)


def _split(scopes: Sequence[Scope], start: int, stop: int, level: int, deepest: int) -> list[ScopeRun]:
    blocks: list[ScopeRun] = []
    while start < stop:
        here = _part(scopes[start], level)
        end = start + 1
        while end < stop and _part(scopes[end], level) == here:
            end += 1
        if here is None or end - start == 1 or not deepest:
            _append_plain(blocks, start, end)
        else:
            below = _common(scopes, start, end, level)
            name = "/".join(scopes[start][level:below])
            blocks.append(ScopeRun(start, end, name, _split(scopes, start, end, below, deepest - 1)))
        start = end
    return blocks


def _append_plain(found: list[ScopeRun], start: int, stop: int) -> None:
    if found and not found[-1].name:
        found[-1].stop = stop
    else:
        found.append(ScopeRun(start, stop))


def _common(scopes: Sequence[Scope], start: int, stop: int, level: int) -> int:
    """The first level at which the scopes part."""
    shortest = min((len(scope) for scope in scopes[start:stop]), default=0)
    while level < shortest and all(scope[level] == scopes[start][level] for scope in scopes[start:stop]):
        level += 1
    return level


def _part(scope: Scope, level: int) -> str | None:
    return scope[level] if level < len(scope) else None


# Steps that stand side by side: runs of operations that repeat, as those of an unrolled loop do.

_LONGEST_STEP = 64  # operations of a step
_FEWEST = 3  # steps in a row
_FEWEST_OPERATIONS = 12


@dataclass(frozen=True)
class Repeat:
    """Operations from `start` on: `count` steps of the same length."""

    start: int
    period: int
    steps: int

    @property
    def stop(self) -> int:
        """The operation after the last one."""
        return self.start + self.period * self.steps


def repeats(keys: Sequence[Hashable], start: int, stop: int) -> list[Repeat]:
    """The runs of repeated operations among those from `start` up to `stop`, first come first served.

    keys: equal for operations that do the same in two steps.
    """
    groups: list[Repeat] = []
    at = start
    while at < stop:
        candidates = (_at(keys, at, stop, period) for period in range(2, _LONGEST_STEP + 1))
        worth = [r for r in candidates if _is_worth(r, keys)]
        best = max(worth, key=lambda r: (r.stop, -r.period), default=None)
        if best is not None:
            groups.append(best)
            at = best.stop
        else:
            at += 1
    return groups


def _is_worth(repeat: Repeat, keys: Sequence[Hashable]) -> bool:
    """Whether a block helps: a chain of one and the same operation is no loop."""
    step = set(keys[repeat.start : repeat.start + repeat.period])
    return repeat.steps >= _FEWEST and repeat.stop - repeat.start >= _FEWEST_OPERATIONS and len(step) > 1


def _at(keys: Sequence[Hashable], start: int, stop: int, period: int) -> Repeat:
    end = start + period
    while end < stop and keys[end] == keys[end - period]:
        end += 1
    return Repeat(start, period, (min(end, stop) - start) // period)
