"""Matches signatures and outputs of two sides, plans the calls, sets tolerances."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from jfuse.base.errors import JfuseError, shown
from jfuse.frontends.imported_functions import ImportedFunctions
from jfuse.frontends.sources import Imported
from jfuse.ir.graph import Graph, Signature, Var
from jfuse.ir.states import initial_values
from jfuse.proof.inputs import CallInputs
from jfuse.verification.compare.comparison import Comparison, of_stubs
from jfuse.verification.compare.conditioning import Conditioning, source_overflows
from jfuse.verification.compare.matching import Renamed, SignatureMatch, match
from jfuse.verification.compare.micro_sigmoid import MicroSigmoid
from jfuse.verification.compare.scales import ElementScales
from jfuse.verification.compare.ties import Ties
from jfuse.verification.compare.tolerance import (
    EXACT,
    Tolerance,
    beside_narrow,
    is_rounded_file,
    of_narrow_source,
    tolerance_of,
)
from jfuse.verification.compare.wrong import Excused, either
from jfuse.verification.inputs.redraw import Redraw
from jfuse.verification.options import Verify
from jfuse.verification.plan import CallPlan
from jfuse.verification.runners.in_functions import InFunctions
from jfuse.verification.runners.in_litert import InLiteRt
from jfuse.verification.runners.in_tensorflow import InTensorFlow
from jfuse.verification.runners.on_xla import ComparedModel
from jfuse.verification.runners.without_custom_ops import AroundCustom, can_be_cut, has_custom
from jfuse.verification.sides import Sides
from jfuse.verification.subject import STATE, Interface, Subject

_DEFAULT_NAME = re.compile(r"(.*/)?Variable(_\d+)?")  # TensorFlow's


@dataclass
class MatchedSides:
    """The sides, the options of their comparison, and all that follows from both before anything is run."""

    sides: Sides
    options: Verify
    _tolerances: dict[tuple[str, str], Tolerance] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        stated = self.options.tolerance
        if isinstance(stated, Mapping):
            signatures = self.signatures.values()
            known = [
                *(n for s in signatures for n in s.output_names),
                *(f"{STATE}{i.name}" for s in signatures for i in s.states),
            ]
            if unknown := [name for name in stated if name not in known]:
                expected = f"one of {list(dict.fromkeys(known))}"
                raise JfuseError(f"tolerance= has no output {shown(unknown[0])}", expected=expected)

    def comparison(
        self,
        reference: Subject,
        subjects: Sequence[Subject],
        in_rows: bool,
        *,
        scales: ElementScales | None = None,
        tolerance: Callable[[str, str], Tolerance] | None = None,
    ) -> Comparison:
        """A comparison of some of the subjects with the reference, or with one of them."""
        left_out = self.stubbed if reference is self.reference else ()
        comparison = Comparison(
            reference,
            subjects,
            self.signatures,
            tolerance or self._tolerance,
            in_rows,
            around=self.around,
            redraw=self._redraw,
            left_out=frozenset((*(f"{STATE}{name}" for name in self.unnamed_states), *left_out)),
            scales=self.scales if scales is None else scales,
        )
        if (model := self.sides.model) is not None:
            ties = Ties(model.program, self._imported, self.matches, self._functions, self._other_file)
            reasons: list[Excused] = [source_overflows, ties.excused]
            if self.options.tolerance is None:  # one that was asked for holds whatever rounding does
                reasons += [MicroSigmoid(model.program).excused, Conditioning(model.program).excused]
            comparison.excused = either(*reasons)
        return comparison

    def apart(self) -> Iterator[Comparison]:
        """Comparisons of each further runner of the file with one that computes the same integers."""
        for subject, reference in self.sides.apart:
            yield self.comparison(reference, (subject,), True, tolerance=self.rounded_alike)

    def rounded_alike(self, key: str, output: str) -> Tolerance:
        """The tolerance of an output between two that round in one way."""
        program = self.sides.subjects[0].program
        assert program is not None, "of a file"
        return tolerance_of(program, key, output)

    def rounding_of_source(self, key: str, output: str) -> Tolerance | None:
        """The tolerance of an output that the reference alone rounds to 16 bits; None if it does not."""
        ours, theirs, matched = self.sides.subjects[0].program, self.sides.reference.program, self.matches[key]
        if ours is None or theirs is None:
            return None
        return of_narrow_source(ours, theirs, matched.key, matched.outputs.get(output, output))

    @cached_property
    def _redraw(self) -> Redraw:
        """Redraws inputs for all comparisons; inputs with a promise stay as they are drawn."""
        promised = {v for p in self.plan.promises for v in p.inputs}
        inputs = {key: zip(s.input_names, s.graph.inputs, strict=False) for key, s in self.signatures.items()}
        return Redraw({key: frozenset(name for name, var in of if var in promised) for key, of in inputs.items()})

    @cached_property
    def unnamed_states(self) -> tuple[str, ...]:
        """States without a name, in a file of another program: its numbering is not TensorFlow's."""
        program = self.sides.subjects[0].program
        if program is None or program.facts.description is None:
            return ()
        names = sorted({s.name for s in program.states() if _DEFAULT_NAME.fullmatch(s.name)})
        return tuple(names) if len(names) > 1 else ()

    @cached_property
    def stubbed(self) -> tuple[str, ...]:
        """Names of outputs and states that are a stub's result in the source."""
        return tuple(sorted({n for s in self.signatures.values() for n in of_stubs(s)}))

    @cached_property
    def scales(self) -> ElementScales:
        """Scales of output elements, shared by all comparisons."""
        return ElementScales(self.signatures)

    @property
    def _imported(self) -> Imported | None:
        return self.sides.reference.imported if isinstance(self.sides.reference, InTensorFlow) else None

    @property
    def _functions(self) -> ImportedFunctions | None:
        return self.sides.reference.imported if isinstance(self.sides.reference, InFunctions) else None

    @property
    def _other_file(self) -> dict[str, Signature]:
        """The signatures of the file that LiteRT runs as the reference, under the subjects' names."""
        reference, ours = self.sides.reference, self.sides.subjects[0].signatures
        if not isinstance(reference, InLiteRt):
            return {}
        theirs = {s.key: s for s in reference.program.signatures}
        return {key: _renamed(theirs[m.key], key, m, ours[key]) for key, m in self.matches.items()}

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """The subjects that run here: LiteRT has no kernels for custom operators."""
        model = self.sides.model
        custom = model is not None and has_custom(model.program)
        return tuple(s for s in self.sides.subjects if not (custom and isinstance(s, InLiteRt)))

    @cached_property
    def around(self) -> Callable[[], AroundCustom] | None:
        """Runs the file around its custom operators, where it has some that can be cut out."""
        model = self.sides.model
        cut = model is not None and self.sides.data is not None and has_custom(model.program)
        return partial(AroundCustom, model.program) if cut and model and can_be_cut(model.program) else None

    @cached_property
    def matches(self) -> dict[str, SignatureMatch]:
        """Matched signatures, by the subjects' keys."""
        return match(self.sides.subjects[0], self.sides.reference, self.options.keys)

    @cached_property
    def reference(self) -> Subject:
        """The reference under the subjects' names."""
        return Renamed(self.sides.reference, self.matches)

    @cached_property
    def signatures(self) -> dict[str, Signature]:
        """Signatures to call, by the subjects' keys; from the reference, renamed, if a subject has no graph."""
        ours, theirs = (
            {} if s.program is None else {x.key: x for x in s.program.signatures}
            for s in (self.sides.subjects[0], self.sides.reference)
        )
        return {
            key: ours.get(key) or _renamed(theirs.get(m.key), key, m, self.sides.subjects[0].signatures[key])
            for key, m in self.matches.items()
        }

    @cached_property
    def in_rows(self) -> bool:
        """Whether rows of calls are compared with the reference's, whichever side keeps states.

        Each call is a first one if callers hold the states, and against the model's own source if `state=` asked
        for other states (a variable that nobody reads may be missing in the model).
        """
        both = (self.sides.subjects[0], self.sides.reference)
        if any(i.exposed for of in both for i in of.signatures.values()):
            return False
        kept, known = self._kept
        return kept == known or not self._is_own_source or (bool(kept) and kept <= known)

    @cached_property
    def _kept(self) -> tuple[frozenset[str], frozenset[str]]:
        """The states of the subjects, and those of the reference."""
        ours, theirs = self.sides.subjects[0].signatures.values(), self.sides.reference.signatures.values()
        return frozenset(s for i in ours for s in i.states), frozenset(s for i in theirs for s in i.states)

    @property
    def _is_own_source(self) -> bool:
        """Whether the model was lowered from the source that it is compared with."""
        model, source = self.sides.model, self.sides.source
        if model is None or source is None:
            return False
        origin = model.imported or model.functions
        return origin is not None and origin is (source.imported or source.functions)

    @property
    def kept_by_one(self) -> Iterator[str]:
        """The states that one side alone keeps between the calls of a row, in a line for each side."""
        ours, theirs = " and ".join(s.name for s in self.sides.subjects), self.sides.reference.name
        if ours == theirs:
            ours, theirs = f"the first side ({ours})", f"the second side ({theirs})"
        kept, known = self._kept
        for name, other, states in ((ours, theirs, kept - known), (theirs, ours, known - kept)):
            if states and self.in_rows:
                yield f"kept between calls by {name} alone, not by {other}: {', '.join(map(repr, sorted(states)))}"

    @cached_property
    def plan(self) -> CallPlan:
        """The plan of the comparison: rows of calls, with their inputs."""
        distinct = {id(s.graph): s for s in reversed(self.signatures.values())}
        chosen = self.options.keys or [s.key for s in reversed(distinct.values())]
        promises = self.sides.model.report.promises if self.sides.model is not None else ()
        options = self.options
        ours = self.sides.subjects[0].program
        once = self.in_rows and not self.sides.apart and (ours is None or not is_rounded_file(ours.graphs()))
        if isinstance(options.inputs, Iterator) and not once:
            options = replace(options, inputs=list(options.inputs))
        return CallPlan(
            [self.signatures[key] for key in chosen],
            self.sides.subjects[0].signatures,
            {key: m.sizes for key, m in self.matches.items()},
            promises,
            options,
            keeps=any(self._kept),
        )

    def with_states(self, row: Iterable[CallInputs], own: bool = False) -> Iterator[CallInputs]:
        """The row, with the initial values of states that are inputs where the reference does not take them.

        own: the row is compared among subjects, which take its states.
        """
        for step in row:
            taken = step.inputs if own else self.matches[step.key].inputs
            exposed = [s for s in self.signatures[step.key].exposed if s.name not in taken]
            if not exposed:
                yield step
                continue
            types = self.sides.subjects[0].signatures[step.key].inputs
            own_inputs = {n: a for n, a in step.inputs.items() if n not in {s.name for s in exposed}}
            yield replace(step, inputs={**own_inputs, **initial_values(exposed, types, own_inputs)})

    def looked_into(self, key: str) -> ComparedModel | None:
        """The model behind the reference, where a signature has the same names there."""
        matched = self.matches[key]
        alike = matched.key == key and all(n == o for n, o in matched.inputs.items())
        return self.sides.source if alike else None

    def _tolerance(self, key: str, output: str) -> Tolerance:
        stated = self.options.tolerance
        exact = self._own_tolerance(key, output)
        if stated is None or exact is EXACT or (isinstance(stated, Mapping) and output not in stated):
            return exact
        value = float(stated[output] if isinstance(stated, Mapping) else stated)
        return Tolerance(value, "as asked for", per_element=exact.per_element)

    def _own_tolerance(self, key: str, output: str) -> Tolerance:
        if (key, output) not in self._tolerances:
            self._tolerances[key, output] = self._derived_tolerance(key, output)
        return self._tolerances[key, output]

    def _derived_tolerance(self, key: str, output: str) -> Tolerance:
        for subject, at in ((self.sides.subjects[0], key), (self.sides.reference, self.matches[key].key)):
            if subject.program is not None:
                own = output if subject is self.sides.subjects[0] else self.matches[key].outputs.get(output, output)
                rounds = self.sides.source is not self.sides.model
                tolerance = tolerance_of(subject.program, at, own, rounds=rounds)
                return beside_narrow(tolerance, self.rounding_of_source(key, output))
        return Tolerance(1e-5, "f32 sums in another order")


def _renamed(found: Signature | None, key: str, matched: SignatureMatch, interface: Interface) -> Signature:
    """The signature of the reference under the names of the other side; without a graph one that computes nothing."""
    if found is None:
        inputs = tuple(Var(t, n) for n, t in interface.inputs.items())
        return Signature(key, Graph(key, inputs, (), ()), tuple(interface.inputs), ())
    inputs_by, outputs_by = ({o: n for n, o in names.items()} for names in (matched.inputs, matched.outputs))
    return replace(
        found,
        key=key,
        input_names=tuple(inputs_by.get(n, n) for n in found.input_names),
        output_names=tuple(outputs_by.get(n, n) for n in found.output_names),
    )
