"""Reads the text form of graphs and programs, and checks every equation on the way."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.check import check_eqn
from jfuse.ir.graph import Atom, Const, Eqn, FileFacts, Graph, Op, Program, Signature, Source, State, Var
from jfuse.ir.literals import BYTES, parse_elements
from jfuse.ir.registry import find_op
from jfuse.ir.scanner import Scanner
from jfuse.ir.sparse import Level, SparseConst, Sparsity
from jfuse.ir.types import DType, TensorType

_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_BINDER = re.compile(r"[A-Za-z_]\w*[ \t]*:")
_RETURN = re.compile(r"return\b(?![ \t]*:)")
_PROGRAM = re.compile(r"(?:\s|#[^\n]*)*program\b")
_GRAPH = re.compile(r"graph[ \t]+(?=[\w\"&])")
_OP = re.compile(r"[A-Za-z_][\w.:/%-]*")
_OMITTED = re.compile(r"-(?!\S)")
_LARGE = re.compile(r"const<")
_VERSION = re.compile(r"@(\d+)")
_TYPED = re.compile(r"\w+\[")
_BARE = re.compile(r"(?:True|False)\b|-?\d[\w.+-]*")
_ELEMENT = re.compile(rf"{BYTES.pattern}|[^\s()]+")
_NUMBER = re.compile(r"\d+")
_DEBUG = re.compile(r"\^")
_SHARED = re.compile(r"&\d+")
_INTEGER = re.compile(r"-?\d+")
_COMMENT = re.compile(r"#[ \t]*([^\n]*)")
_SOURCE = re.compile(r"(.*) \((.*)\)")


def is_program(text: str) -> bool:
    """Whether a text is that of a program, as models print, or of one graph."""
    return _PROGRAM.match(text) is not None


def parse(text: str, *, consts: Mapping[str, np.ndarray] | None = None) -> Graph:
    """The graph that prints as `text`; raises JfuseError with line and column where it is none, or does not check.

    consts: the arrays of the constants that print by digest, as `constants_of(graph)` gives them.
    """
    scanner = Scanner(text, consts or {})
    scanner.skip_lines()
    graph = _GraphParser(scanner).graph()
    scanner.end()
    return graph


def parse_program(text: str, *, consts: Mapping[str, np.ndarray] | None = None) -> Program:
    """The program that prints as `text`."""
    scanner = Scanner(text, consts or {})
    scanner.skip_lines()
    scanner.expect("program")
    scanner.expect("{")
    assumptions: list[str] = []
    while scanner.accept_line("assume"):
        assumptions.append(scanner.string())
    parser = _GraphParser(scanner)
    description = scanner.string() if scanner.accept_line("description") else None
    metadata: list[tuple[str, Const]] = []
    while scanner.accept_line("metadata"):
        name = scanner.string()
        scanner.expect("=")
        metadata.append((name, parser.constant_atom()))
    states: dict[str, State] = {}
    while scanner.accept_line("state"):
        home: Literal["tensor", "variable"] = "tensor" if scanner.accept("tensor") else "variable"
        name = scanner.string()
        scanner.expect("=")
        states[name] = State(name, parser.constant_atom(), home)
    headers: list[_Header] = []
    while scanner.accept_line("signature"):
        headers.append(_header(scanner, scanner.string(), states))
    uncalled: list[_Header] = []
    while scanner.accept_line("uncalled"):
        uncalled.append(_header(scanner, "", states))
    graphs: list[Graph] = []
    while not scanner.accept_line("}"):
        graphs.append(parser.graph())
    scanner.end()
    called, others = (tuple(_signature(scanner, h, graphs) for h in group) for group in (headers, uncalled))
    order = tuple(dict.fromkeys(int(h.graph[0]) for h in (*headers, *uncalled)))
    facts = FileFacts(description, tuple(metadata), others, order if list(order) != sorted(order) else ())
    return Program(called, tuple(assumptions), facts)


@dataclass
class _Header:
    key: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[State, ...]
    exposed: tuple[State, ...]
    graph: re.Match[str]


def _header(scanner: Scanner, key: str, states: Mapping[str, State]) -> _Header:
    inputs = _strings(scanner)
    scanner.expect("->")
    outputs = _strings(scanner)
    kept_states, exposed = (_states(scanner, word, states) for word in ("keeps", "exposes"))
    scanner.expect("=")
    scanner.expect("graph")
    return _Header(key, inputs, outputs, kept_states, exposed, scanner.take(_NUMBER, "the number of a graph"))


def _states(scanner: Scanner, word: str, states: Mapping[str, State]) -> tuple[State, ...]:
    start = scanner.skip()
    names = _strings(scanner) if scanner.accept(word) else ()
    unknown = [name for name in names if name not in states]
    if unknown:
        scanner.fail("states that are given above", found=unknown[0], at=start)
    return tuple(states[name] for name in names)


def _strings(scanner: Scanner) -> tuple[str, ...]:
    scanner.expect("(")
    strings: list[str] = []
    while not scanner.accept(")"):
        if strings:
            scanner.expect(",")
        strings.append(scanner.string())
    return tuple(strings)


def _signature(scanner: Scanner, header: _Header, graphs: list[Graph]) -> Signature:
    number = int(header.graph[0])
    if number >= len(graphs):
        scanner.fail(f"the number of one of the {len(graphs)} graphs", at=header.graph.start())
    graph = graphs[number]
    counts = (len(graph.inputs), len(graph.outputs))
    if counts != (len(header.inputs) + len(header.states), len(header.outputs) + len(header.states)):
        scanner.fail("a name or a state for each input and output of the graph", at=header.graph.start())
    return Signature(header.key, graph, header.inputs, header.outputs, header.states, header.exposed)


@dataclass
class _GraphParser:
    """Graphs from one scanner, which share one table of large constants."""

    scanner: Scanner
    large: dict[tuple[str, TensorType], Const] = field(default_factory=dict)
    numbered: dict[str, Graph] = field(default_factory=dict)  # bodies that several equations have

    def graph(self) -> Graph:
        scanner = self.scanner
        scanner.take(_GRAPH, "'graph' and a name")
        if scanner.peek(_SHARED):
            return self.numbered_graph(scanner.take(_SHARED, "a number"))
        name = scanner.name("the name of the graph")
        number = scanner.take(_SHARED, "a number")[0] if scanner.peek(_SHARED) else ""
        variables: dict[str, Var] = {}
        inputs = self.inputs(variables)
        debug = self.debug()
        scanner.expect("{")
        eqns: list[Eqn] = []
        scanner.skip_lines()
        while not scanner.peek(_RETURN):
            eqns.append(self.eqn(variables))
            scanner.skip_lines()
        scanner.expect("return")
        outputs = self.results(variables)
        scanner.skip_lines()
        scanner.expect("}")
        graph = Graph(name, inputs, tuple(eqns), outputs, debug)
        return self.numbered.setdefault(number, graph) if number else graph

    def numbered_graph(self, number: re.Match[str]) -> Graph:
        """`&1`: the body that stands above with this number."""
        if number[0] not in self.numbered:
            self.scanner.fail("the number of a body above", found=number[0], at=number.start())
        return self.numbered[number[0]]

    def debug(self) -> int | None:
        """`^3`, the index into the debug metadata; None where there is none."""
        return int(self.scanner.take(_NUMBER, "an index")[0]) if self.scanner.accept("^") else None

    def inputs(self, variables: dict[str, Var]) -> tuple[Var, ...]:
        scanner = self.scanner
        scanner.expect("(")
        while not scanner.accept(")"):
            if variables:
                scanner.expect(",")
            name, tensor_type = self.binder(variables)
            variables[name] = Var(tensor_type, value=self.known(tensor_type))
        return tuple(variables.values())

    def binder(self, *bound: Container[str]) -> tuple[str, TensorType]:
        """`a: f32[B,8]`, of a name that is not bound yet."""
        match = self.scanner.take(_VARIABLE, "a variable, as in 'a: f32[B,8]'")
        if any(match[0] in names for names in bound):
            self.scanner.fail("each variable bound once", at=match.start())
        self.scanner.expect(":")
        return match[0], self.scanner.type()

    def known(self, tensor_type: TensorType) -> np.ndarray | None:
        """The known value of an input: `=(B,8)` after its type."""
        if not self.scanner.accept("="):
            return None
        start = self.scanner.skip()
        try:
            return np.array(self.scanner.value(), object).reshape(tensor_type.shape)
        except (TypeError, ValueError) as error:
            self.scanner.fail(f"a value of {tensor_type}", found=str(error), at=start)

    def eqn(self, variables: dict[str, Var]) -> Eqn:
        names, types = self.binders(variables)
        name = self.scanner.take(_OP, "an equation, or 'return'")
        op = find_op(name[0], types)
        if op is None:
            self.scanner.fail("the name of an op", found=name[0], at=name.start())
        version = int(self.scanner.take(_VERSION, "a version")[1]) if self.scanner.peek(_VERSION) else None
        params = _filled(op, self.scanner.params("]") if self.scanner.accept("[") else {})
        inputs, effects, intermediates = self.operands(variables)
        debug = self.debug()
        source, bodies = self.source(), self.bodies()
        results = tuple(Var(t) for t in types)
        eqn = Eqn(op, inputs, results, params, source, bodies, effects, version, intermediates, debug)
        try:
            check_eqn(eqn)
        except JfuseError as error:
            error.where = self.scanner.place(name.start())
            raise
        values = op.known_values(inputs, params, len(types))
        eqn = replace(eqn, outputs=tuple(Var(t, value=v) for t, v in zip(types, values, strict=True)))
        variables.update(zip(names, eqn.outputs, strict=True))
        return eqn

    def binders(self, variables: Mapping[str, Var]) -> tuple[list[str], list[TensorType]]:
        """The results of an equation up to `=`; none where it has no result."""
        names: list[str] = []
        types: list[TensorType] = []
        while self.scanner.peek(_BINDER):
            name, tensor_type = self.binder(variables, names)
            names.append(name)
            types.append(tensor_type)
            if not self.scanner.accept(","):
                self.scanner.expect("=")
                break
        return names, types

    def operands(
        self, variables: Mapping[str, Var]
    ) -> tuple[tuple[Atom | None, ...], tuple[str, ...], tuple[Var, ...]]:
        """Operands, effects and intermediates up to the end of the line."""
        inputs: list[Atom | None] = []
        effects: list[str] = []
        intermediates: list[Var] = []
        while not self.at_end() and not self.scanner.peek(_DEBUG):
            if self.scanner.accept("!"):
                effects.append(self.scanner.name("the name of a state"))
            elif self.scanner.accept("~"):
                intermediates.append(Var(self.scanner.type()))
            elif self.scanner.peek(_OMITTED):
                self.scanner.expect("-")
                inputs.append(None)
            else:
                inputs.append(self.atom(variables))
        return tuple(inputs), tuple(effects), tuple(intermediates)

    def results(self, variables: Mapping[str, Var]) -> tuple[Atom, ...]:
        atoms: list[Atom] = []
        while not self.at_end():
            if atoms:
                self.scanner.expect(",")
            atoms.append(self.atom(variables))
        return tuple(atoms)

    def at_end(self) -> bool:
        return self.scanner.at_line_end() or self.scanner.peek(_COMMENT) is not None

    def source(self) -> Source:
        """The comment at the end of the line; path and stack are not told apart again."""
        if not self.scanner.peek(_COMMENT):
            return Source()
        text = self.scanner.take(_COMMENT, "a comment")[1].strip()
        match = _SOURCE.fullmatch(text)
        return Source(match[1], match[2]) if match else Source(text)

    def bodies(self) -> tuple[Graph, ...]:
        graphs: list[Graph] = []
        self.scanner.skip_lines()
        while self.scanner.peek(_GRAPH):
            graphs.append(self.graph())
            self.scanner.skip_lines()
        return tuple(graphs)

    def atom(self, variables: Mapping[str, Var]) -> Atom:
        scanner = self.scanner
        if scanner.peek(_LARGE):
            return self.large_constant()
        if scanner.accept("sparse<"):
            return self.sparse_constant()
        if scanner.peek(_TYPED):
            return self.typed_constant()
        if scanner.peek(_BARE):
            match = scanner.take(_BARE, "a constant")
            return self.constant([match[0]], TensorType((), _bare_dtype(match[0])), match.start())
        match = scanner.take(_VARIABLE, "a variable or a constant")
        if match[0] not in variables:
            scanner.fail("a variable that is bound above", found=match[0], at=match.start())
        return variables[match[0]]

    def constant_atom(self) -> Const:
        """A constant in any of its forms."""
        start = self.scanner.skip()
        atom = self.atom({})
        if not isinstance(atom, Const):
            self.scanner.fail("a constant", at=start)
        return atom

    def typed_constant(self) -> Const:
        """`i64[2](1 2)`."""
        scanner = self.scanner
        start = scanner.skip()
        tensor_type = scanner.type()
        scanner.expect("(")
        words: list[str] = []
        while not scanner.accept(")"):
            words.append(scanner.take(_ELEMENT, "an element, or ')'")[0])
        return self.constant(words, tensor_type, start)

    def constant(self, words: list[str], tensor_type: TensorType, start: int) -> Const:
        if not tensor_type.is_static:
            self.scanner.fail("a constant's shape in numbers", at=start)
        try:
            array = parse_elements(words, tensor_type.dtype, tensor_type.shape)
            return Const(array, quantization=tensor_type.quantization)
        except (ValueError, OverflowError) as error:
            self.scanner.fail(f"the elements of {tensor_type}", found=str(error), at=start)

    def large_constant(self) -> Const:
        """`const<f32[64,8] 2048B 0123456789abcdef>`; one digest is one Const."""
        scanner = self.scanner
        scanner.expect("const<")
        tensor_type = scanner.type()
        digest, array, place = scanner.digest()
        key = (digest, tensor_type)
        if key not in self.large:
            self.large[key] = Const(array, quantization=tensor_type.quantization)
        if self.large[key].type != tensor_type:
            scanner.fail(str(tensor_type), found=f"consts[{digest!r}] is {self.large[key].type}", at=place)
        return self.large[key]

    def sparse_constant(self) -> Const:
        """`sparse<f32[8,8] order=(0,1) blocks=() values=… 8 …:…>`, from its type on."""
        scanner = self.scanner
        tensor_type, fields = scanner.type(), []
        for name in ("order", "blocks"):
            scanner.expect(f"{name}=")
            fields.append(scanner.value())
        scanner.expect("values=")
        values = self.constant_atom()
        levels: list[Level] = []
        while not scanner.accept(">"):
            if scanner.peek(_NUMBER):
                levels.append(int(scanner.take(_NUMBER, "a size")[0]))
                continue
            segments = self.constant_atom()
            scanner.expect(":")
            levels.append((segments, self.constant_atom()))
        sparsity = Sparsity(fields[0], fields[1], tuple(levels))
        return SparseConst(values.array, tensor_type.shape, sparsity, quantization=tensor_type.quantization)


def _filled(op: Op, given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters in the declared order, defaults filled in."""
    defaults = {name: given.get(name, default) for name, default in op.defaults.items()}
    return {name: value for name, value in (defaults | dict(given)).items() if value is not ...}


def _bare_dtype(word: str) -> DType:
    if word in ("True", "False"):
        return DType.bool
    return DType.i32 if _INTEGER.fullmatch(word) else DType.f32
