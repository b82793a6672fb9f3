"""Samples shared out over devices and over processes: the same numbers as on one device in one process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Run by interpreters of their own: how many devices and processes there are is settled when jax starts.
_PROGRAM = """
import json, os, sys
import jax
address, processes, process = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if processes > 1:
    jax.distributed.initialize(address, processes, process)
import numpy as np
import jfuse
from jfuse.kernels import ops
from jfuse.base.errors import JfuseError, VerifyFailed
from jfuse.quantization.calibrate import calibrate
from jfuse.quantization.statistics import Observed
from jfuse.running.processes import of_all_processes
from jfuse.tflite.write.file import to_bytes
from jfuse.model import Model
from jfuse.verification.compare.comparison import Comparison
from jfuse.verification.compare.wrong import Differs
from jfuse.verification.runners.in_litert import InLiteRt
from jfuse.verification.runners.on_xla import OnXla
from jfuse.verification.compare.scales import ElementScales
from jfuse.verification.compare.tolerance import Tolerance
from tests.tflite import programs
from tests.verification.runners.sample_batches import OffInSamples, batch_of

of = programs.lstm()
(signature,) = of.signatures
x = np.random.default_rng(5).normal(size=(43, 2, 6, 3)).astype(np.float32)
on_xla, in_litert = OnXla(Model(of)), InLiteRt(to_bytes(of), of)
found = {}
for limit in (1e-5, 0.0):
    comparison = Comparison(in_litert, [on_xla], {signature.key: signature}, lambda k, o: Tolerance(limit, "sums"))
    try:
        comparison.samples([batch_of(signature, {"x0": x})])
    except Differs as differs:
        found["first"] = differs.step.inputs["x0"].tolist()
    found[str(limit)] = [(d.output, d.error, d.samples) for d in comparison.differences()]
try:
    in_litert.batch({"x0": x[..., :2]}, signature.key)
except VerifyFailed as error:
    found["refused"] = type(error).__name__
# Few samples are off, by elements or as a whole: what explains that is told of each, else the first is told.
scaled = programs.program(lambda x: ops.mul(x, np.array([1, 1, 1e-5], np.float32)), programs.f32(2, 6, 3))
(of_scaled,) = scaled.signatures
on_scaled = OnXla(Model(scaled))
for off in (1e-7, 1.0):
    for why in ([], ["a reason"]):
        def excused(step, wrong, before):
            return ([], [f"{off} at {step.inputs['x0'][0, 0]}"]) if why else (wrong, [])
        comparison = Comparison(
            on_scaled,
            [OffInSamples(on_scaled, "y0", off, above=45.0)],
            {of_scaled.key: of_scaled},
            lambda k, o: Tolerance(1e-5, "sums"),
            scales=ElementScales({of_scaled.key: of_scaled}),
            excused=excused,
        )
        try:
            comparison.samples([batch_of(of_scaled, {"x0": x[:10]}), batch_of(of_scaled, {"x0": x[10:]})])
        except Differs as differs:
            found[f"off by {off}"] = differs.step.inputs["x0"].tolist(), [w.measure.relative for w in differs.wrong]
        told = [(d.output, d.error, d.samples) for d in comparison.differences()]
        moves = {o: m.spread.tolist() for (k, o), m in comparison.scales._known.items()}
        found[f"of {off} {why}"] = told, list(comparison.notes), moves
quantized = jfuse.quantize(Model(of), "int8", calibration=[{"x0": x[0]}])  # one call: one process runs it
result = jfuse.verify(quantized, Model(of), samples=70)
found["quantized"] = [(d.output, d.pair, d.error, d.tolerance, d.samples) for d in result.differences], result.samples
result = jfuse.verify(Model(of), samples=70)
found["drawn"] = [(d.output, d.pair, d.error, d.samples) for d in result.differences], result.notes, result.samples
found["devices"] = len(jax.local_devices())
observed = [Observed(output) for eqn in signature.graph.eqns for output in eqn.outputs]
records = calibrate(of, observed, list(x)).records
found["calibrated"] = sorted((key, np.float32(r.extremes).tolist(), r.calls) for key, r in records.items())
try:
    calibrate(of, observed, [x[0], np.full_like(x[0], np.nan)])
except JfuseError as error:
    found["bad data"] = error.message
if processes > 1:
    # What one of them does with its part.
    def fail():
        raise VerifyFailed("a reason")
    def end():
        print(json.dumps(found), flush=True)
        os._exit(0)
    for part in (fail, end):
        try:
            of_all_processes(part if process else int, VerifyFailed)
        except VerifyFailed as error:
            found[part.__name__] = error.message, error.found if part is fail else None
print(json.dumps(found), flush=True)
os._exit(0)  # at its end jax waits for the process that is not there any more
"""


def _run(processes: int = 1, devices: int = 1) -> list[dict[str, Any]]:
    """What each process prints. They run side by side."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    environment = {
        **os.environ,
        # As this process compiles, hastily by default; of a flag that is there twice, the last one counts.
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, address, str(processes), str(i)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for i in range(processes)
    ]
    try:
        ended = [process.communicate(timeout=300) for process in running]
    finally:
        for process in running:
            process.kill()
    assert [p.returncode for p in running] == [0] * processes, [stderr for _, stderr in ended]
    return [json.loads(stdout.splitlines()[-1]) for stdout, _ in ended]


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """One process with one device."""
    (found,) = _run()
    assert found.pop("devices") == 1
    assert found["refused"] == "VerifyFailed"
    assert found["1e-05"]
    assert found["first"]
    assert found["off by 1e-07"] != found["off by 1.0"]
    for off in ("1e-07", "1.0"):
        assert len(found[f"of {off} ['a reason']"][1]) > 2
    return found


@pytest.mark.slow
def test_eight_devices(alone: dict[str, Any]) -> None:
    (found,) = _run(devices=8)
    assert found.pop("devices") == 8
    assert found == alone


@pytest.mark.slow
def test_two_processes(alone: dict[str, Any]) -> None:
    first, second = _run(processes=2, devices=2)
    assert first.pop("fail") == ["process 1 of 2 fails on its samples", "a reason"]
    assert first.pop("end") == ["process 1 of 2 ended before it gave its part", None]
    assert second.pop("fail") == ["a reason", None]
    for found in (first, second):
        assert found.pop("devices") == 2
        assert found == alone
