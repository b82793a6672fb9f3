"""`jfuse.extract`: a part of a model; `jfuse.merge`: several models as one with a signature for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jfuse.api.load import load
from jfuse.base.errors import JfuseError, shown
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.option_values import names_of, need_mapping
from jfuse.ir.graph import Atom, Graph, Program, Signature, Var
from jfuse.ir.walk import has_effects, substitute_graph
from jfuse.model import Model
from jfuse.programs.tensor_names import tensors_of


@only_jfuse_errors("extracting")
def extract(
    source: Any,
    outputs: Sequence[str | Var] | None = None,
    inputs: Sequence[str | Var] | None = None,
    *,
    signature: str | None = None,
) -> Model:
    """The part of one signature that computes `outputs` of `inputs`, as a model of its own.

    source: a Model, or any source of `load`.
    outputs, inputs: names of tensors: of what the signature takes and gives, or of inner values, as `tensor_names` of
        a Model lists them, or Vars of its graph; by default those of the signature. An input that the outputs do not
        need stays one.
    Raises JfuseError for a name that there is not, and where the outputs need more than the inputs.
    """
    model = source if isinstance(source, Model) else load(source)
    chosen = model.signature(signature)
    graph = chosen.graph
    if chosen.states or has_effects(graph):
        raise JfuseError(
            "a part that keeps states cannot be separated from the rest",
            found=", ".join(s.name for s in chosen.states) or "variables",
            remedy='state="io" makes them inputs and outputs, which can be cut like others',
        )
    values = tensors_of(chosen)
    taken = names_of("inputs=", _named(inputs, values)) or chosen.input_names
    output_names = names_of("outputs=", _named(outputs, values)) or chosen.output_names
    for option, names in (("inputs=", taken), ("outputs=", output_names)):
        for name in names:
            _need_tensor(option, name, values)
    fresh = {name: Var(values[name].type, name) for name in taken}
    cut: dict[Var, Atom] = {v: var for name, var in fresh.items() if isinstance(v := values[name], Var)}
    if len(cut) != len(taken):
        raise JfuseError("inputs= are values that are computed, each once", found=list(taken))
    renamed = substitute_graph(graph, cut)
    results = tuple(cut.get(atom, atom) if isinstance(atom := values[name], Var) else atom for name in output_names)
    part = Graph(graph.name, tuple(fresh.values()), _needed(renamed, results), results)
    _need_inputs(part, values)
    named = Signature(chosen.key, part, tuple(taken), tuple(output_names))
    return Model(Program((named,), model.program.assumptions), limits=model.limits)


def _named(chosen: Sequence[str | Var] | None, values: Mapping[str, Atom]) -> Any:
    """The names of tensors that are given by name or as Vars."""
    if not isinstance(chosen, list | tuple):
        return chosen
    names = {value: name for name, value in reversed([*values.items()])}
    return [names.get(tensor, tensor) if isinstance(tensor, Var) else tensor for tensor in chosen]


def _need_tensor(option: str, name: str, values: Mapping[str, Atom]) -> None:
    if name not in values:
        near = [known for known in values if name.split("/")[-1] in known] or list(values)
        raise JfuseError(f"{option} names no tensor of the model", expected=", ".join(near[:12]), found=shown(name))


def _needed(graph: Graph, results: Sequence[Atom]) -> Any:
    needed = {a for a in results if isinstance(a, Var)}
    eqns = []
    for eqn in reversed(graph.eqns):
        if any(out in needed for out in eqn.outputs):
            needed.update(a for a in eqn.inputs if isinstance(a, Var))
            eqns.append(eqn)
    return tuple(reversed(eqns))


def _need_inputs(part: Graph, values: Mapping[str, Atom]) -> None:
    made = {*part.inputs, *(v for e in part.eqns for v in e.outputs)}
    read = [a for e in part.eqns for a in e.inputs] + list(part.outputs)
    missing = dict.fromkeys(a for a in read if isinstance(a, Var) and a not in made)
    if missing:
        names = {value: name for name, value in reversed([*values.items()])}
        raise JfuseError(
            "the outputs need more than the inputs that are named",
            found=", ".join(names.get(var, repr(var)) for var in missing),
            remedy="name these among inputs=, or values behind them",
        )


@only_jfuse_errors("merging")
def merge(models: Mapping[str, Any]) -> Model:
    """Several models as one, with a signature for each, under its key; a file of it holds equal constants once.

    models: Models, or any source of `load`, of one signature each. Raises JfuseError for others, and where two keep a
        state of one name.
    """
    need_mapping("models=", models, '{"encode": a model, "decode": another one}')
    signatures: dict[str, Signature] = {}
    assumptions: list[str] = []
    owner: dict[str, str] = {}
    for key, source in models.items():
        model = source if isinstance(source, Model) else load(source)
        if len(model.program.signatures) != 1:
            raise JfuseError(
                f"the model {key!r} has several signatures",
                found=", ".join(model.signatures),
                remedy="jfuse.extract(model, signature=…) takes one",
            )
        (single,) = model.program.signatures
        for state in single.states:
            if owner.setdefault(state.name, key) != key:
                raise JfuseError(
                    "two models keep a state of one name", found=f"{state.name} of {owner[state.name]}, {key}"
                )
        signatures[key] = replace(single, key=key, graph=replace(single.graph, name=key))
        assumptions += model.program.assumptions
    return Model(Program(tuple(signatures.values()), tuple(dict.fromkeys(assumptions))))
