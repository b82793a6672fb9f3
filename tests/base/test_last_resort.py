"""What nobody foresaw leaves the public functions as a JfuseError; the user's own exceptions pass as they are."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.passes.fuse import recover
from jfuse.tflite.write import file

KERNEL = np.eye(3, dtype=np.float32)


@pytest.fixture
def source() -> Any:
    return tf.function(
        lambda x: tf.nn.relu(x @ KERNEL, name="activation"), input_signature=[tf.TensorSpec([None, 3])], autograph=False
    )


def failing(*args: Any, **kwargs: Any) -> Any:
    """What stands for a fault in jfuse: compiled under the name of one of its files."""
    return _FAULT["fault"](*args, **kwargs)


# The frames of a planted fault must look like jfuse's own: they decide whose exception it is.
_FAULT: dict[str, Any] = {"__name__": file.__name__}
exec(compile("def fault(*args, **kwargs):\n    return {}['missing']\n", file.__file__, "exec"), _FAULT)
fault = _FAULT["fault"]


def test_a_fault_in_a_pass_names_the_pass(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recover, "recover_single_steps", fault)
    with pytest.raises(jfuse.InternalError, match=r"lowering \(pass \w+\)\n.*KeyError: 'missing'\n.*report") as caught:
        jfuse.convert(source)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_fault_in_a_rule_names_the_node(source: Any) -> None:
    rule = jfuse.lowers("Relu", default=False)(fault)
    with pytest.raises(jfuse.InternalError, match="loading at activation") as caught:
        jfuse.load(source, rules=[rule])
    assert isinstance(caught.value, jfuse.JfuseError)


def test_a_library_that_is_newer_than_those_tested_is_named(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "__version__", "0.14.1")
    monkeypatch.setattr(recover, "recover_single_steps", fault)
    message = r"jax below 0.13[^\n]*\n.*found +jax 0.14.1; KeyError: 'missing'\n.*try +pip install 'jax<0.13'"
    with pytest.raises(jfuse.InternalError, match=message):
        jfuse.convert(source)


def test_other_stages(source: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lite = jfuse.convert(source)
    x = np.ones((1, 3), np.float32)
    calls: dict[str, Callable[[], Any]] = {
        "running the model": lambda: jfuse.Model(lite.program)(x),
        "writing the file": jfuse.Model(lite.program).to_bytes,
        "measuring the file": lambda: jfuse.Model(lite.program).size_bytes,
        "saving the file": lambda: jfuse.Model(lite.program).save(tmp_path / "m.tflite"),
        "verification": lambda: jfuse.verify(lite),
        "parsing": lambda: jfuse.parse(str(lite)),
    }
    for name in ("jfuse.running.runner.Runner.__call__", "jfuse.model.file_parts"):
        monkeypatch.setattr(name, fault)
    monkeypatch.setattr("jfuse.verification.verify.Verification", fault, raising=False)
    monkeypatch.setattr("jfuse.api.load.parse_program", fault)
    for stage, call in calls.items():
        with pytest.raises(jfuse.InternalError, match=stage):
            call()


class OfTheUser(Exception):
    """Raised by what the user hands in."""


def raising(*args: Any) -> Any:
    raise OfTheUser


def inputs() -> Iterator[Any]:
    yield np.ones((1, 3), np.float32)
    raise OfTheUser


def test_the_users_own_exceptions_pass(source: Any) -> None:
    lite = jfuse.convert(source)
    for call in (
        lambda: jfuse.convert(source, pipeline=jfuse.Pipeline(on_stage=raising)),
        lambda: jfuse.verify(lite, on_progress=raising),
        lambda: jfuse.verify(lite, inputs=inputs()),
    ):
        with pytest.raises(OfTheUser):
            call()


@pytest.mark.parametrize("foreign", [operator.itemgetter(0.5), lambda: None, len], ids=["C", "no argument", "builtin"])
def test_what_no_frame_tells_is_the_users_as_well(source: Any, foreign: Any) -> None:
    """Code in C, and code that does not take what it is called with, leaves no frame of the user's."""
    lite = jfuse.convert(source, verify=False)
    data = {"x": np.ones((4, 3), np.float32)}
    loaded, relu = jfuse.load(source), jfuse.lowers("Relu", default=False)
    for call in (
        lambda: jfuse.convert(source, verify=False, pipeline=jfuse.Pipeline(on_stage=operator.itemgetter(0.5))),
        lambda: jfuse.load(source, rules=[relu(lambda: None)]),
        lambda: jfuse.lower(loaded, pipeline=jfuse.Pipeline(passes=(foreign,))),
        lambda: jfuse.quantize(lite, "int8", data, target={"accuracy_drop": 0.1, "metric": operator.itemgetter("z")}),
        lambda: jfuse.verify(lite, inputs=map(operator.itemgetter(3), [[1]])),
    ):
        with pytest.raises((TypeError, KeyError, IndexError)) as caught:
            call()
        assert not isinstance(caught.value, jfuse.JfuseError)


def test_what_the_users_code_gives_is_checked(source: Any) -> None:
    lite, loaded = jfuse.convert(source, verify=False), jfuse.load(source)
    data = {"x": np.ones((4, 3), np.float32)}
    with pytest.raises(jfuse.JfuseError, match=r"the pass '<lambda>' gives no Graph\n.*None\n.*fix the pass"):
        jfuse.lower(loaded, pipeline=jfuse.Pipeline(passes=(lambda graph, ctx: None,)))
    with pytest.raises(jfuse.JfuseError, match="the metric gives no number"):
        jfuse.quantize(lite, "int8", data, target={"accuracy_drop": 0.1, "metric": lambda outputs: None})
    with pytest.raises(jfuse.RuleError, match="gives no result"):
        jfuse.load(source, rules=[jfuse.lowers("Relu", default=False)(lambda features: None)])


@pytest.mark.parametrize(
    ("error", "library", "message"),
    [
        (ImportError("x.so: failed to map segment from shared object"), np.__file__, "not enough memory to load"),
        (ImportError("no such symbol"), np.__file__, "a library cannot be imported"),
        (ImportError("no such symbol"), "/other/lib/site-packages/x.py", "a library cannot be imported"),
    ],
)
def test_libraries_that_do_not_load(
    source: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, library: str, message: str
) -> None:
    made: dict[str, Any] = {"error": error}
    exec(compile("def fault(*args):\n    raise error\n", library, "exec"), made)
    lite = jfuse.convert(source, verify=False)
    monkeypatch.setattr("jfuse.model.write_atomic", made["fault"])
    with pytest.raises(jfuse.JfuseError, match=message) as caught:
        lite.save(tmp_path / "m.tflite")
    assert not isinstance(caught.value, jfuse.InternalError)


def test_interrupts_pass(source: Any) -> None:
    def interrupted(stage: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jfuse.convert(source, pipeline=jfuse.Pipeline(on_stage=interrupted))


def test_calls_that_do_not_fit_stay_type_errors() -> None:
    with pytest.raises(TypeError, match="source"):
        jfuse.convert()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), r"saving the file failed: \[Errno 28\] No space left on device$"),
        (MemoryError(), "saving the file failed: there is not enough memory$"),
        (RecursionError("too deep"), "jfuse itself failed.*\n.*too deep\n.*setrecursionlimit"),
    ],
)
def test_what_the_machine_lacks_is_no_fault_to_report(
    source: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, message: str
) -> None:
    made: dict[str, Any] = {"error": error}
    exec(compile("def fault(*args):\n    raise error\n", file.__file__, "exec"), made)
    lite = jfuse.convert(source, verify=False)
    monkeypatch.setattr("jfuse.model.write_atomic", made["fault"])
    with pytest.raises(jfuse.JfuseError, match=message):
        lite.save(tmp_path / "m.tflite")


@pytest.mark.parametrize(
    "argument",
    [np.ones((1, 4), np.float32), np.ones(3, np.float32), "text", None, [[1, 2], [3]]],
)
def test_arguments_of_another_kind_are_errors_of_the_call(source: Any, argument: Any) -> None:
    lite = jfuse.convert(source, verify=False)
    for model in (lite, jfuse.load(source)):
        with pytest.raises(jfuse.JfuseError, match="input 'x'") as caught:
            model(argument)
        assert not isinstance(caught.value, jfuse.InternalError)
