"""Passes of one's own: places, rules of patterns, checks, comparisons, and whose an exception is."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfuse
from jfuse import ir, ops, pattern
from jfuse.base.errors import NotFused
from jfuse.kernels.control import composite
from jfuse.passes import own
from jfuse.passes.pipeline import STAGES, with_own
from jfuse.passes.regions import changed_regions
from jfuse.running.interpreter import LiteRt
from tests.lowering.test_installed import site as site  # a fixture

WEIGHTS = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


def network(x: Any) -> dict[str, Any]:
    return {"y": jnp.exp(jnp.tanh(x @ WEIGHTS))}


def loaded(function: Any = network) -> jfuse.Model:
    return jfuse.load(function, [jax.ShapeDtypeStruct((3, 4), jnp.float32)])


def kept(graph: ir.Graph) -> ir.Graph:
    return graph


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes that a test registers are of that test."""
    monkeypatch.setattr(own, "_REGISTERED", {})


def names(*passes: Any) -> list[str]:
    return [step.__name__ for step in with_own(passes)]


def local(**options: Any) -> Any:
    return jfuse.rewrites(default=False, **options)


def test_passes_stand_where_they_say() -> None:
    assert names() == list(STAGES)
    at = STAGES.index
    first, second = (local(name=n, after="fuse")(kept) for n in ("acme.first", "acme.second"))
    assert names(first, second)[at("fuse") + 1 :][:2] == ["acme.first", "acme.second"]
    assert names(local(name="acme.a", before="fuse")(kept))[at("fuse")] == "acme.a"
    swapped = names(local(name="acme.b", instead="reroll")(kept))
    assert (len(swapped), swapped[at("reroll")]) == (len(STAGES), "acme.b")
    assert names(kept)[at("simplify") + 1] == "kept"
    assert names(first, local(name="acme.c", before="acme.first")(kept))[at("fuse") + 1 :][:2] == [
        "acme.c",
        "acme.first",
    ]


def test_what_stands_nowhere_or_twice_is_refused() -> None:
    with pytest.raises(jfuse.JfuseError, match=r"place of the pass 'acme\.x'"):
        names(local(name="acme.x", before="no_such_pass")(kept))
    with pytest.raises(jfuse.JfuseError, match=r"before='fuze'(.|\n)*try +before='fuse'"):
        names(local(name="acme.x", before="fuze")(kept))
    with pytest.raises(jfuse.JfuseError, match="two passes are named 'kept'"):
        names(kept, kept)
    with pytest.raises(jfuse.RuleError, match="a pass takes one of before=, after= and instead="):
        local(before="fuse", after="recover")
    with pytest.raises(jfuse.RuleError, match='patterns need on="graph"'):
        jfuse.rewrites(lambda x: ops.exp(x), on="program")
    with pytest.raises(jfuse.RuleError, match="does not bind"):
        jfuse.rewrites(lambda x: ops.exp(x))(lambda match, y: y)


def test_a_pattern_in_functions_of_jax_is_refused_at_its_definition() -> None:
    with pytest.raises(jfuse.RuleError, match=r"a pattern of rule is spelled in functions of jfuse\.ops"):

        @jfuse.rewrites(lambda x: jnp.tanh(x), default=False)
        def rule(match: Any, x: Any) -> Any:
            return x


def test_a_registered_pass_is_in_every_conversion() -> None:
    jfuse.rewrites(name="acme.kept")(kept)
    assert "acme.kept" in names()
    assert "acme.kept" in jfuse.lower(loaded()).report.seconds
    with pytest.raises(jfuse.RuleError, match=r"two passes are named 'acme.kept'"):
        jfuse.rewrites(name="acme.kept")(kept)
    jfuse.rewrites(name="acme.kept", override=True, before="fuse")(kept)
    assert names()[STAGES.index("fuse")] == "acme.kept"


def test_the_passes_of_installed_packages_are_found(site: Path) -> None:
    text = "import jfuse\n\n@jfuse.rewrites(name='acme.installed', default=False)\ndef kept(graph):\n    return graph\n"
    (site / "installed_passes_a.py").write_text(text)
    facts = site / "acme_passes-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-passes\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[jfuse.passes]\nacme = installed_passes_a\n")
    (found,) = jfuse.installed_passes()
    assert found.name == "acme.installed"
    (site / "installed_passes_b.py").write_text("x = 1\n")
    (facts / "entry_points.txt").write_text("[jfuse.passes]\nacme = installed_passes_b\n")
    with pytest.raises(jfuse.RuleError, match="names no passes"):
        jfuse.installed_passes()


def squared(match: jfuse.Match, x: Any) -> Any:
    """exp(x) = exp(x/2)^2, where x is a tanh."""
    maker = match.view.producer(x)
    jfuse.need(maker is not None and maker.op is ops.tanh, "of_tanh", want="a tanh", got=maker and maker.op.name)
    return ops.square(ops.exp(ops.mul(x, np.float32(0.5))))


def test_a_rule_of_a_pattern_is_applied_tested_and_told(tmp_path: Path) -> None:
    rule = jfuse.rewrites(lambda x: ops.exp(x), default=False)(squared)
    lite = jfuse.lower(loaded(), pipeline=jfuse.Pipeline(passes=[rule], dump_dir=tmp_path))
    assert lite.report.operators["square"] == 1
    (fusion,) = lite.report.fused
    assert (fusion.rule, fusion.becomes, fusion.samples > 50, fusion.unproven) == (
        "squared",
        ("MUL", "EXP", "SQUARE"),
        True,
        "",
    )
    assert {(r.rule, r.condition) for r in lite.report.refused} == {("squared", "of_tanh")}
    assert [path for path in tmp_path.iterdir() if path.name.endswith("_squared.txt")]
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    run = LiteRt(lite.to_bytes()).run("serving_default", {"x": x})
    np.testing.assert_allclose(run["y"], np.exp(np.tanh(x @ WEIGHTS)), rtol=1e-5)


def test_a_result_of_another_type_names_the_pass() -> None:
    def turned(graph: Any) -> Any:
        return graph.map(lambda eqn: ops.transpose(eqn.inputs[0], [1, 0]) if eqn.op is ops.tanh else None)

    with pytest.raises(jfuse.TypeMismatch, match="another type at the pass 'turned'"):
        jfuse.lower(loaded(), pipeline=jfuse.Pipeline(passes=[turned]))


WRONG = (lambda x: ops.mul(x, np.float32(1.00001)), lambda x: ops.relu(x), lambda x: np.zeros((3, 6), np.float32))


@pytest.mark.parametrize("replacement", WRONG)
def test_a_rule_that_computes_something_else_is_refused(replacement: Any) -> None:
    rule = jfuse.rewrites(lambda x: ops.tanh(x), default=False)(lambda match, x: replacement(ops.tanh(x)))
    lite = jfuse.lower(loaded(), pipeline=jfuse.Pipeline(passes=[rule]))
    assert lite.to_bytes() == jfuse.lower(loaded()).to_bytes()
    assert [r.condition for r in lite.report.refused] == ["not_equal"]
    assert lite.report.fused == []


@pytest.mark.parametrize("replacement", WRONG)
def test_a_pass_that_computes_something_else_is_an_error(replacement: Any) -> None:
    def wrong(graph: ir.Graph) -> ir.Graph:
        return graph.map(lambda eqn: replacement(ops.tanh(*eqn.inputs)) if eqn.op is ops.tanh else None)

    with pytest.raises(jfuse.JfuseError, match=r"(?s)the pass 'wrong' changes what graph .*not_equal"):
        jfuse.lower(loaded(), pipeline=jfuse.Pipeline(passes=[wrong]))
    meant = local(changes=True)(wrong)
    lite = jfuse.convert(network, [jnp.zeros((3, 4))], pipeline=jfuse.Pipeline(passes=[meant]))
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    wanted = np.exp(np.asarray(replacement(np.tanh(x @ WEIGHTS))))
    run = LiteRt(lite.to_bytes()).run("serving_default", {"x": x})
    np.testing.assert_allclose(run["y"], wanted, rtol=1e-5)


def test_case_distinctions_are_claimed_as_in_fusions() -> None:
    def clipped(x: Any) -> dict[str, Any]:
        return {"y": jnp.maximum(x @ WEIGHTS, -1e30)}

    rule = jfuse.rewrites(lambda x, low: ops.maximum(x, pattern.const(low)), before="fuse", default=False)(
        lambda match, x, low: ops.mul(x, np.float32(1))
    )
    lite = jfuse.lower(loaded(clipped), pipeline=jfuse.Pipeline(passes=[rule]))
    assert [r.condition for r in lite.report.refused] == ["unexplained_switch"]


def test_what_nothing_can_run_is_trusted_or_refused() -> None:
    (graph,) = loaded().program.graphs()
    stateful = replace(graph, eqns=tuple(replace(eqn, effects=("v",)) for eqn in graph.eqns))
    with pytest.raises(NotFused, match="stateful_body"):
        own.PassComparison().need_equal(stateful, graph)
    assert own.PassComparison(trust=True).need_equal(stateful, graph) is None
    assert own.PassComparison().need_equal(graph, graph) is not None


def test_types_and_promises_are_checked_behind_it() -> None:
    def untyped(graph: ir.Graph) -> ir.Graph:
        (eqn,) = [e for e in graph.eqns if e.op is ops.tanh]
        bad = replace(eqn, inputs=(ir.Const(np.zeros((5, 5), np.float32)),))
        return replace(graph, eqns=tuple(bad if e is eqn else e for e in graph.eqns))

    with pytest.raises(jfuse.JfuseError, match=r"the pass 'untyped' broke the graph .*results of other types"):
        jfuse.lower(loaded(), pipeline=jfuse.Pipeline(passes=[untyped]))

    def unpromised(graph: ir.Graph) -> ir.Graph:
        (eqn,) = [e for e in graph.eqns if e.op is ops.tanh]
        inner = ir.Var(eqn.inputs[0].type)  # type: ignore[union-attr]
        out = ir.Var(eqn.outputs[0].type)
        body = ir.Graph("body", (inner,), (replace(eqn, inputs=(inner,), outputs=(out,)),), (out,))
        call = replace(eqn, op=composite, params={"name": "acme.t", "attributes": ()}, bodies=(body,))
        return replace(graph, eqns=tuple(call if e is eqn else e for e in graph.eqns))

    with pytest.raises(jfuse.JfuseError, match=r"(?s)broke a promise of a pass before it.*no composites"):
        jfuse.lower(loaded(), pipeline=jfuse.Pipeline(passes=[unpromised]))
    with pytest.raises(jfuse.JfuseError, match="gives no Graph"):
        jfuse.lower(loaded(), pipeline=jfuse.Pipeline(passes=[lambda graph: None]))


def test_an_exception_is_the_users_with_its_traceback() -> None:
    def failing(graph: ir.Graph) -> ir.Graph:
        raise ZeroDivisionError("of the user")

    def failing_rule(match: jfuse.Match, x: Any) -> Any:
        raise ZeroDivisionError("of the user")

    for given in (failing, jfuse.rewrites(lambda x: ops.tanh(x), default=False)(failing_rule)):
        with pytest.raises(ZeroDivisionError, match="of the user") as caught:
            jfuse.convert(network, [jnp.zeros((3, 4))], pipeline=jfuse.Pipeline(passes=[given]))
        assert "failing" in traceback.extract_tb(caught.value.__traceback__)[-1].name


def test_a_rule_without_end_is_named() -> None:
    rule = jfuse.rewrites(lambda x: ops.tanh(x), default=False)(lambda match, x: ops.tanh(ops.neg(ops.neg(x))))
    with pytest.raises(jfuse.JfuseError, match="finds no end in graph"):
        jfuse.lower(
            loaded(),
            pipeline=jfuse.Pipeline(
                passes=[local(changes=True)(kept), replace(rule, comparison=own.PassComparison(changes=True))]
            ),
        )


def test_a_pass_over_the_program_may_change_signatures() -> None:
    def renamed(program: ir.Program) -> ir.Program:
        return replace(program, signatures=tuple(replace(s, output_names=("z",)) for s in program.signatures))

    lite = jfuse.lower(loaded(), pipeline=jfuse.Pipeline(passes=[local(on="program")(renamed)]))
    assert lite.signature().output_names == ("z",)

    def probed(program: ir.Program) -> ir.Program:
        (signature,) = program.signatures
        graph = replace(signature.graph, outputs=(*signature.graph.outputs, signature.graph.eqns[0].outputs[0]))
        return replace(program, signatures=(replace(signature, graph=graph, output_names=("y", "probe")),))

    with pytest.raises(jfuse.JfuseError, match="gives signature 'serving_default' other inputs or outputs"):
        jfuse.lower(loaded(), pipeline=jfuse.Pipeline(passes=[local(on="program")(probed)]))
    probing = jfuse.lower(loaded(), pipeline=jfuse.Pipeline(passes=[local(on="program", changes=True)(probed)]))
    x = np.ones((3, 4), np.float32)
    np.testing.assert_allclose(probing(x)["probe"], x @ WEIGHTS, rtol=1e-5)


def test_quantized_conversions_take_passes() -> None:
    rule = jfuse.rewrites(lambda x: ops.exp(x), default=False)(squared)
    for lite in (
        jfuse.lower(loaded(), quantize="int8", calibration="random", pipeline=jfuse.Pipeline(passes=[rule])),
        jfuse.quantize(loaded(), "int8", "random", pipeline=jfuse.Pipeline(passes=[rule]), verify=False),
    ):
        assert [f.rule for f in lite.report.fused] == ["squared"]


def regions(change: Any) -> Iterator[tuple[int, int, int]]:
    (graph,) = loaded().program.graphs()
    for a, b in changed_regions(graph, graph.map(change)):
        yield len(a.inputs), len(a.eqns), len(b.eqns)


def test_only_what_changed_is_compared() -> None:
    assert list(regions(lambda eqn: None)) == []
    twice = lambda eqn: ops.neg(ops.neg(ops.tanh(*eqn.inputs))) if eqn.op is ops.tanh else None  # noqa: E731
    assert list(regions(twice)) == [(1, 1, 3)]
