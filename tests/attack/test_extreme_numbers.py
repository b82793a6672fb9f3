"""Extreme and wrong numbers in every option that takes one: a right result, or one clear error; no time, no memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import jfuse
from jfuse.cli import app as cli
from jfuse.ir.dims import symbol
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.tflite.write.file import to_bytes
from tests.tflite import programs
from tests.tflite.programs import f32, program

NUMBERS: dict[str, Any] = {
    "0": 0,
    "3": 3,
    "-1": -1,
    "2**31": 2**31,
    "2**63": 2**63,
    "10**400": 10**400,
    "10**5000": 10**5000,  # of which Python writes no digits
    "1.5": 1.5,
    "1e308": 1e308,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "True": True,
    "'3'": "3",
    "None": None,
    "int32": np.int32(3),
    "float32": np.float32(0.5),
    "array": np.array([1, 2]),
    "object": object(),
}
COUNTS = frozenset({"0", "3", "2**31", "int32"})
SIZES = COUNTS - {"2**31"}
FINITE = frozenset({"0", "3", "2**31", "2**63", "1.5", "1e308", "int32", "float32"})
NONE = frozenset({"None"})
SECONDS = 30.0  # for all numbers of one option, on a busy machine
MEMORY = 2**30  # bytes that they may take

X = np.ones((2, 3), np.float32)


def tanh(x: Any) -> Any:
    return jnp.tanh(x)


@dataclass(frozen=True)
class Files:
    """A file, one with an open size, and what jfuse makes of them."""

    fixed: Path
    open_: Path
    loop: Path

    @property
    def model(self) -> jfuse.Model:
        return jfuse.load(self.fixed)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("numbers")
    found = Files(folder / "fixed.tflite", folder / "open.tflite", folder / "loop.tflite")
    found.fixed.write_bytes(to_bytes(program(lambda x: ops.add(x, 1.0), f32(2, 3))))
    found.open_.write_bytes(to_bytes(program(ops.tanh, TensorType((symbol("B"), 4), DType.f32))))
    found.loop.write_bytes(to_bytes(programs.lstm()))
    return found


@dataclass(frozen=True)
class Row:
    """A call with the number in one option, the numbers that are right there, and what the errors must name.

    quick: also the right ones are tried by default. errors: of an official class, those that it documents.
    """

    call: Callable[[Files, Any], Any]
    takes: frozenset[str]
    names: str = ""
    quick: bool = False
    errors: tuple[type[Exception], ...] = (jfuse.JfuseError,)


def _limits(field: str, takes: frozenset[str]) -> Row:
    return Row(lambda files, n: jfuse.Limits(**{field: n}), takes, f"{field}=", quick=True)


def _verify(option: str, takes: frozenset[str], **others: Any) -> Row:
    return Row(lambda files, n: jfuse.verify(files.fixed, options=jfuse.Verify(**{option: n}, **others)), takes, option)


def _rule(field: str, takes: frozenset[str], **others: Any) -> Row:
    return Row(lambda files, n: jfuse.QuantizeRule("integer", **{field: n}, **others), takes, quick=True)


def _quantize(option: Callable[[Any], Any]) -> Callable[[Files, Any], Any]:
    return lambda files, n: jfuse.quantize(files.open_, "int8", option(n), verify=False)


def _interpreter(act: Callable[[jfuse.Interpreter, Any], Any]) -> Row:
    def call(files: Files, number: Any) -> Any:
        interpreter = jfuse.Interpreter(str(files.fixed), engine="xla")
        interpreter.allocate_tensors()
        return act(interpreter, number)

    return Row(call, frozenset({"0"}), quick=True, errors=(ValueError, TypeError))


ONCE = jfuse.Verify(calls=1)
TIMES = FINITE - {"0"} | {"10**400", "10**5000", "inf"}
OFFICIAL = (ValueError, TypeError)
ROWS: dict[str, Row] = {
    **{f"Limits.{name}": _limits(name, COUNTS) for name in jfuse.Limits.__dataclass_fields__ if "seconds" not in name},
    "Limits.conversion_seconds": _limits("conversion_seconds", TIMES),
    "Limits.seconds": _limits("seconds", TIMES | NONE),
    "load limits": Row(lambda f, n: jfuse.load(f.fixed, limits=n), frozenset(), "limits=", quick=True),
    "load signatures": Row(
        lambda f, n: jfuse.load(tanh, jfuse.Inputs([X], signatures=n)), NONE, "signatures=", quick=True
    ),
    "load specs": Row(
        lambda f, n: jfuse.load(tanh, [jax.ShapeDtypeStruct((n, 4), jnp.float32)]),
        SIZES | NONE | {"'3'"},
        "size",
        quick=True,
    ),
    "verify samples": _verify("samples", SIZES, calls=1),
    "verify calls": _verify("calls", SIZES - {"0"}),
    "verify seed": _verify("seed", COUNTS, calls=1),
    "verify shrink": _verify("shrink", COUNTS | NONE, calls=1),
    "verify tolerance": _verify("tolerance", FINITE | NONE, calls=1),
    "verify tolerance of an output": Row(
        lambda f, n: jfuse.verify(f.fixed, None, ONCE, tolerance={"y0": n}), FINITE, "tolerance="
    ),
    "verify sizes": _verify("sizes", NONE),
    "verify a size": Row(lambda f, n: jfuse.verify(f.open_, None, ONCE, sizes={"B": n}), SIZES - {"0"}, "size"),
    "verify device": _verify("device", NONE, calls=1),
    "verify limits": Row(lambda f, n: jfuse.verify(f.fixed, limits=n), frozenset(), "limits="),
    "verify runtimes": _verify("runtimes", NONE, calls=1),
    "lower forms": Row(
        lambda f, n: jfuse.lower(f.model, forms=jfuse.Forms(by_source={"a": n})), frozenset(), "by_source", quick=True
    ),
    "lower target": Row(lambda f, n: jfuse.lower(f.model, target=n), NONE, "target", quick=True),
    "lower rules": Row(lambda f, n: jfuse.lower(f.model, rules=n), NONE, "rules=", quick=True),
    "lower": Row(lambda f, n: jfuse.lower(n), frozenset(), quick=True),
    "optimize slower": Row(lambda f, n: jfuse.optimize(f.fixed, slower=n), FINITE - {"0"}, "slower="),
    "tune seconds": Row(
        lambda f, n: jfuse.tune(f.fixed, seconds=n, verify=False), SIZES | {"1.5", "float32"}, "seconds="
    ),
    "tune timings": Row(lambda f, n: jfuse.tune(f.fixed, timings=n), frozenset(), "timings="),
    "recipe weight_bits": _rule("weight_bits", frozenset()),
    "recipe activation_bits": _rule("activation_bits", frozenset()),
    "recipe min_elements": _rule("min_elements", SIZES),
    "recipe block_size": _rule("block_size", SIZES - {"0"}, granularity="block"),
    "recipe range_algorithm": _rule("range_algorithm", frozenset()),
    "recipe rules": Row(lambda f, n: jfuse.Recipe(n), frozenset(), quick=True),
    "recipe inputs": Row(lambda f, n: jfuse.Recipe((), inputs=n), frozenset(), "inputs", quick=True),
    "quantize recipe": Row(lambda f, n: jfuse.quantize(f.open_, n), frozenset(), "recipe", quick=True),
    "calibration": Row(_quantize(lambda n: n), frozenset(), quick=True),
    "calibration input": Row(_quantize(lambda n: [{"x0": n}]), frozenset(), quick=True),
    "a call": Row(lambda f, n: f.model(n), frozenset(), "'x0'", quick=True),
    "run": Row(lambda f, n: f.model.run({"x0": n}), frozenset({"float32"})),
    "key of a call": Row(lambda f, n: f.model(X, signature=n), NONE, "no signature", quick=True),
    "jax": Row(lambda f, n: f.model.jax(n), NONE, "no signature", quick=True),
    "initial_states": Row(lambda f, n: f.model.initial_states(n), NONE, "no signature", quick=True),
    "parse": Row(lambda f, n: jfuse.parse(n), frozenset(), quick=True),
    "save": Row(lambda f, n: f.model.save(n), frozenset(), "path", quick=True),
    "check target": Row(lambda f, n: jfuse.check(f.fixed, n), frozenset({"None"}), "target", quick=True),
    "Interpreter threads": Row(
        lambda f, n: jfuse.Interpreter(str(f.fixed), num_threads=n, engine="xla"), frozenset(NUMBERS), quick=True
    ),
    "Interpreter content": Row(
        lambda f, n: jfuse.Interpreter(model_content=n), frozenset(), quick=True, errors=OFFICIAL
    ),
    "Interpreter size": Row(
        lambda f, n: jfuse.Interpreter(str(f.fixed), engine="xla").resize_tensor_input(0, [n, 3]),
        COUNTS - {"2**31"}, quick=True, errors=OFFICIAL,
    ),
    "Interpreter input": _interpreter(lambda i, n: i.set_tensor(n, X)),
    "Interpreter output": _interpreter(lambda i, n: i.get_tensor(n)),
    "Interpreter subgraph": _interpreter(lambda i, n: i.get_tensor_details(n)),
}  # fmt: skip


@contextmanager
def bounded() -> Iterator[None]:
    """Within so many seconds, and without more memory."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.monotonic() - started < SECONDS
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < MEMORY


@pytest.mark.parametrize("name", ROWS)
def test_wrong_numbers_are_refused(name: str, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS[name]
    monkeypatch.chdir(tmp_path)
    with bounded():
        for number in NUMBERS.keys() - row.takes:
            if (name, number) in {("save", "'3'"), ("verify samples", "array")}:
                continue  # a path, the inputs themselves
            with pytest.raises(row.errors) as refused:
                row.call(files, NUMBERS[number])
            assert not isinstance(refused.value, jfuse.InternalError), number
            assert row.names in str(refused.value), number
            assert len(str(refused.value)) < 1000, number
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if row.quick else pytest.mark.slow) for name, row in ROWS.items() if row.takes]
)
def test_right_numbers_are_taken(name: str, files: Files) -> None:
    row = ROWS[name]
    with bounded():
        for number in sorted(row.takes):
            row.call(files, NUMBERS[number])


TEXTS = frozenset("0 3 -1 2147483648 1.5 1e308 nan inf -inf True \u00b3".split()) | {"", "9" * 19, "9" * 5000}
WHOLE = frozenset({"0", "3"})
POSITIVE = frozenset({"3", "1.5", "1e308", "2147483648", "9" * 19})
COMMANDS: dict[str, tuple[str, frozenset[str]]] = {
    "--samples": ("verify {file} --calls 1 --samples {}", WHOLE),
    "--calls": ("verify {file} --calls {}", frozenset({"3"})),
    "--seed": ("verify {file} --calls 1 --seed {}", WHOLE | {"2147483648"}),
    "--tolerance": ("verify {file} --calls 1 --tolerance {}", POSITIVE | {"0"}),
    "--limit": ("verify {file} --calls 1 --limit {}", POSITIVE | {"inf", "9" * 5000}),
    "--size": ("verify {open} --calls 1 --size B={}", WHOLE - {"0"}),
    "--batch": ("inspect {folder} --batch {}", frozenset()),
    "--shape": ("inspect {file} --shape x0={}", frozenset()),
    "--slower": ("optimize {file} -o out.tflite --slower {}", POSITIVE),
}


def _command(option: str, text: str, files: Files, folder: Path) -> Any:
    given = {"file": files.fixed, "open": files.open_, "folder": folder}
    return CliRunner().invoke(cli.app, [word.format(text, **given) for word in COMMANDS[option][0].split()])


@pytest.mark.parametrize("option", COMMANDS)
def test_wrong_options_of_commands(option: str, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with bounded():
        for text in TEXTS - COMMANDS[option][1]:
            done = _command(option, text, files, tmp_path)
            assert done.exit_code in (1, 2), (text, done.output)
            assert isinstance(done.exception, SystemExit), text
            assert "jfuse itself failed" not in done.output, text


@pytest.mark.slow
@pytest.mark.parametrize("option", [option for option, (_, takes) in COMMANDS.items() if takes])
def test_right_options_of_commands(option: str, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with bounded():
        for text in sorted(COMMANDS[option][1]):
            done = _command(option, text, files, tmp_path)
            assert done.exit_code == 0, (text, done.output)
