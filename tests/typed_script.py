"""A user's script over the public API. mypy takes it, and finds each mistake: an unused `ignore` is an error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import assert_type

import numpy as np

import jfuse
from jfuse import ir, lite, ops, pattern, reports


@jfuse.rewrites(lambda x, w: ops.fully_connected(x, pattern.const(w)), before="simplify", default=False)
def doubled(match: jfuse.Match, x: ir.Var, w: ir.Const) -> ir.Var | None:
    jfuse.need(match.result.ndim == 2, "matrix", want="two dimensions", got=match.result.ndim)
    return None


def counted(graph: ir.Graph) -> ir.Graph:
    return graph.map(lambda eqn: None)


def samples() -> Iterator[dict[str, np.ndarray]]:
    yield {"x": np.ones((1, 8), np.float32)}


def convert(path: str) -> jfuse.Model:
    result = jfuse.convert(
        path,
        pipeline=jfuse.Pipeline(passes=[doubled, counted]),
        state="keep",
        forms=jfuse.Forms(loop="while", prefer="size"),
        batch=1,
    )
    print(result.report.size_bytes + 1, result.save("model.tflite").name)
    small = jfuse.quantize(result, "int8", samples, target="tflite-micro")
    jfuse.convert(
        path,
        quantize="dynamic",
        target=["litert", "litert>=2.14"],
        forms=jfuse.Forms(precision="source", padding="left"),
    )
    return small


def look(model: jfuse.Model) -> int:
    program: ir.Program = model.program
    graph = program.signature().graph
    names = [eqn.op.name.upper() for eqn in graph.all_eqns()]
    users: dict[ir.Var, list[ir.Eqn]] = graph.users()
    same: bool = jfuse.load(program).program == program
    cost: jfuse.ProgramCost = model.cost(sizes={"B": 1}, measure=True)
    rows: tuple[jfuse.OperatorCost, ...] = cost.sorted("weights")
    weights = dict(model.jax(straight_through=True).weights)
    part = jfuse.extract(model, outputs=["y"], inputs=["x"])
    both = jfuse.merge({"a": part, "b": model.with_constants(weights)})
    print(names, users, same, rows[0].macs, both.jaxpr("a").in_avals, str(jfuse.diff(part, both)))
    return cost.macs


def compare(model: jfuse.Model) -> float:
    found: jfuse.Verification = jfuse.verify(model, edges="nan", options=jfuse.Verify(runtimes=["tflite-micro"]))
    checked = jfuse.check(model, "tflite-micro")
    print(checked.runs, checked.arena_bytes)
    return max(difference.error for difference in found.differences)


@jfuse.fuses("acme.softsign", default=False)
def softsign(x: ir.Var) -> ir.Var:
    result: ir.Var = ops.div(x, ops.add(ops.abs_(x), np.float32(1)))
    return result


def others(model: jfuse.Model, path: str) -> jfuse.Limits:
    recipe = jfuse.Recipe((jfuse.QuantizeRule("integer"), jfuse.QuantizeRule("float", regex="head/")), inputs="uint8")
    small = jfuse.convert(path, jfuse.Inputs(batch=1), quantize=recipe, calibration="random", rules=[softsign])
    noise: jfuse.QuantizeReport = jfuse.quantize_report(small, data="random")
    page = reports.write_html(None, small.program, jfuse.verify(small), "report.html", report=small.report)
    converter = jfuse.TFLiteConverter.from_saved_model(path)
    converter.optimizations = [lite.Optimize.DEFAULT]
    interpreter = lite.Interpreter(model_content=converter.convert())
    interpreter.allocate_tensors()
    output: np.ndarray = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    times = [row.seconds for row in jfuse.bench(path, threads=[1]).rows]
    print(noise.ranked("own")[0].snr_db, page.name, output.shape, times, jfuse.tune(path).report.tuned)
    print(jfuse.optimize("a.tflite").size_bytes, [rule.names for rule in jfuse.installed_rules()])
    return jfuse.Limits(seconds=5.0)


def exact(model: jfuse.Model, graph: ir.Graph) -> None:
    assert_type(jfuse.convert("m.keras"), jfuse.Model)
    assert_type(jfuse.lower(model), jfuse.Model)
    assert_type(model.program.map(lambda eqn: None), ir.Program)
    assert_type(graph.producers(), dict[ir.Var, ir.Eqn])
    assert_type(graph.eqns[0].op.name, str)
    assert_type(model.cost().by_layer(), tuple[jfuse.OperatorCost, ...])
    assert_type(jfuse.diff(model, model).equal, bool)
    assert_type(model.report.fused[0].samples, int)
    assert_type(doubled, jfuse.Pass)


def mistakes(model: jfuse.Model) -> None:
    jfuse.convert("m.keras", state="keeep")  # type: ignore[arg-type]
    jfuse.convert("m.keras", target="tflite-microo")  # type: ignore[arg-type]
    jfuse.quantize(model, "int9")  # type: ignore[arg-type]
    jfuse.lower(model, forms=jfuse.Forms(loop="wile"))  # type: ignore[arg-type]
    jfuse.tune("m.keras", forms=jfuse.Forms(padding="centre"))  # type: ignore[arg-type]
    jfuse.verify(model, edges="all")  # type: ignore[arg-type]
    model.cost().sorted("size")  # type: ignore[arg-type]
    print(model.cost().mac)  # type: ignore[attr-defined]
    model.program.graph()  # type: ignore[attr-defined]
    jfuse.convrt("m.keras")  # type: ignore[attr-defined]
    jfuse.quantize_report(model).ranked("worst")  # type: ignore[arg-type]
    jfuse.Limits(second=5.0)  # type: ignore[call-arg]
    jfuse.rewrites(befor="fuse")  # type: ignore[call-arg]


if __name__ == "__main__":
    print(look(convert(sys.argv[1])))
