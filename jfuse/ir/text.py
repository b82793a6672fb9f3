"""The text form of graphs and programs, the same in messages, logs and golden files. `parse` reads it back."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from jfuse.base.errors import printable
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Signature, Source, State, Var, body_of
from jfuse.ir.literals import format_const, format_known, format_value
from jfuse.ir.quantization import PRINTED_IN_FULL
from jfuse.ir.sparse import SparseConst
from jfuse.ir.walk import all_graphs

_NAME = re.compile(r"[A-Za-z_][\w.$/:-]*")


@body_of("Graph.__str__")
def format_graph(
    graph: Graph,
    *,
    sources: bool = True,
    known: bool = True,
    hoisted: Sequence[np.ndarray | Sequence[np.ndarray]] = (),
) -> str:
    """The graph as text.

    sources: False leaves the comments out. known: False leaves the known values of inputs out.
    hoisted: arrays that print by their place in this sequence, so that graphs that differ in these weights alone have
        the same text (which does not read back). Several at one place print alike.
    """
    places = {id(a): i for i, at in enumerate(hoisted) for a in ([at] if isinstance(at, np.ndarray) else at)}
    return "\n".join(_Printer(sources, places, known, _shared((graph,))).graph(graph, ""))


@body_of("Program.__str__")
def format_program(program: Program, *, sources: bool = True) -> str:
    """The assumptions, the states with their initial values, the signatures and each distinct graph once.

    sources: False leaves the comments out.
    """
    graphs, facts = program.in_file_order(), program.facts
    index = {id(graph): i for i, graph in enumerate(graphs)}
    lines = ["program {"]
    lines += [f"  assume {_quoted(text)}" for text in program.assumptions]
    lines += [] if facts.description is None else [f"  description {_quoted(facts.description)}"]
    lines += [f"  metadata {_quoted(name)} = {format_const(data)}" for name, data in facts.metadata]
    lines += [f"  {_state(s)} = {format_const(s.initial)}" for s in _all_states(program)]
    lines += [f"  {_signature(s)} = graph {index[id(s.graph)]}" for s in program.signatures]
    lines += [f"  {_signature(s, 'uncalled')} = graph {index[id(s.graph)]}" for s in facts.uncalled]
    printer = _Printer(sources, {}, shared=_shared(graphs))
    for graph in graphs:
        lines += printer.graph(graph, "  ")
    return "\n".join([*lines, "}"])


@body_of("Program.form")
def _form(program: Program) -> str:
    """The text that two equal programs share: all but sources."""
    return format_program(program, sources=False)


@body_of("Eqn.__str__")
def format_eqn(eqn: Eqn) -> str:
    """One equation without its bodies; the letters are its own."""
    printer = _Printer(True, {})
    names: dict[Var, str] = {}
    for atom in (*eqn.inputs, *eqn.outputs):
        if isinstance(atom, Var) and atom not in names:
            names[atom] = letters(len(names))
    return printer.eqn(eqn, names)


def constants_of(*printed: Graph | Program) -> dict[str, np.ndarray]:
    """The constants that print by digest: what `parse` and `parse_program` need besides the text."""
    arrays: dict[str, np.ndarray] = {}
    for outer in printed:
        for atom in _atoms(outer):
            stored = [atom] if isinstance(atom, Const) else []
            if isinstance(atom, SparseConst):
                stored = [Const(atom.stored), *atom.sparsity.consts()]
            arrays.update((c.digest, c.array) for c in stored if c.array.size > PRINTED_IN_FULL)
            if atom is not None and atom.type.quantization is not None:
                arrays.update((Const(v).digest, v) for v in atom.type.quantization.long_vectors())
    return arrays


def _atoms(printed: Graph | Program) -> Iterator[Atom | None]:
    if isinstance(printed, Program):
        yield from (data for _, data in printed.facts.metadata)
        yield from (state.initial for state in _all_states(printed))
    for outer in printed.entries() if isinstance(printed, Program) else (printed,):
        for graph in all_graphs(outer):
            yield from graph.inputs
            for eqn in graph.eqns:
                yield from (*eqn.inputs, *eqn.outputs, *eqn.intermediates)
            yield from graph.outputs


def _all_states(program: Program) -> Iterator[State]:
    """Each state once, kept or exposed."""
    signatures = (*program.signatures, *program.facts.uncalled)
    by_name = {state.name: state for s in signatures for state in (*s.states, *s.exposed)}
    yield from by_name.values()


def _shared(graphs: Sequence[Graph]) -> frozenset[int]:
    """The ids of the bodies that more than one place has."""
    distinct = {id(inner): inner for graph in graphs for inner in all_graphs(graph)}
    counts = Counter(id(body) for graph in distinct.values() for eqn in graph.eqns for body in eqn.bodies)
    return frozenset(number for number, count in counts.items() if count > 1)


def letters(index: int) -> str:
    """0 -> a, 25 -> z, 26 -> aa, and so on."""
    text = ""
    while index >= 0:
        index, letter = divmod(index, 26)
        text, index = chr(ord("a") + letter) + text, index - 1
    return text


@dataclass
class _Printer:
    sources: bool
    hoisted: Mapping[int, int]
    known: bool = True
    shared: Collection[int] = ()  # ids of bodies that several equations have: printed once, then named by number
    numbers: dict[int, int] = field(default_factory=dict)

    def graph(self, graph: Graph, indent: str) -> Iterator[str]:
        if id(graph) in self.numbers:
            yield f"{indent}graph &{self.numbers[id(graph)]}"
            return
        names = {var: letters(i) for i, var in enumerate(graph.inputs)}
        inputs = ", ".join(_binder(var, names) + (_known(var) if self.known else "") for var in graph.inputs)
        number = ""
        if id(graph) in self.shared:
            self.numbers[id(graph)] = len(self.numbers) + 1
            number = f" &{len(self.numbers)}"
        yield f"{indent}graph {_word(graph.name)}{number}({inputs}){_debug(graph)} {{"
        for eqn in graph.eqns:
            for var in eqn.outputs:
                names[var] = letters(len(names))
            yield f"{indent}  {self.eqn(eqn, names)}"
            for body in eqn.bodies:
                yield from self.graph(body, indent + "    ")
        results = ", ".join(self.atom(a, names) for a in graph.outputs)
        yield f"{indent}  return {results}".rstrip()
        yield f"{indent}}}"

    def eqn(self, eqn: Eqn, names: Mapping[Var, str]) -> str:
        results = ", ".join(_binder(var, names) for var in eqn.outputs)
        words = [_application(eqn), *(self.atom(a, names) for a in eqn.inputs), *(f"!{_word(e)}" for e in eqn.effects)]
        words += [f"~{var.type}" for var in eqn.intermediates]
        comment = f"  # {_comment(eqn.source)}" if self.sources and _comment(eqn.source) else ""
        return (f"{results} = " if results else "") + " ".join(words) + _debug(eqn) + comment

    def atom(self, atom: Atom | None, names: Mapping[Var, str]) -> str:
        if atom is None:
            return "-"
        if isinstance(atom, Var):
            return names.get(atom, "?")  # only in graphs that the checker refuses
        place = self.hoisted.get(id(atom.array))
        return format_const(atom) if place is None else f"const<{atom.type} #{place}>"


def _binder(var: Var, names: Mapping[Var, str]) -> str:
    return f"{names[var]}: {var.type}"


def _known(var: Var) -> str:
    # Of other variables the known value follows from their equation; an input's would be lost.
    return "" if var.value is None else f"={format_known(var.value)}"


def _application(eqn: Eqn) -> str:
    """The op with its parameters: declared ones first, in the declared order, those equal to their default left out."""
    defaults = eqn.op.defaults
    shown = {k: format_value(v) for k, v in eqn.params.items()}
    order = [k for k in defaults if k in shown] + sorted(shown.keys() - defaults.keys())
    parts = [f"{k}={shown[k]}" for k in order if defaults.get(k, ...) is ... or format_value(defaults[k]) != shown[k]]
    version = "" if eqn.version is None else f"@{eqn.version}"
    return eqn.op.name + version + (f"[{' '.join(parts)}]" if parts else "")


def _debug(of: Eqn | Graph) -> str:
    return "" if of.debug is None else f" ^{of.debug}"


def _comment(source: Source) -> str:
    return printable(" ".join(str(source).split()))


def _state(state: State) -> str:
    return f"state {'tensor ' if state.home == 'tensor' else ''}{_quoted(state.name)}"


def _signature(signature: Signature, word: str = "") -> str:
    head = word or f"signature {_quoted(signature.key)}"
    names = [", ".join(map(_quoted, group)) for group in (signature.input_names, signature.output_names)]
    groups = {"keeps": signature.states, "exposes": signature.exposed}
    states = (f" {word} ({', '.join(_quoted(s.name) for s in group)})" for word, group in groups.items() if group)
    return f"{head}({names[0]}) -> ({names[1]}){''.join(states)}"


def _word(name: str) -> str:
    return name if _NAME.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())
