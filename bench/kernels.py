"""The recurrent kernels on XLA, against the arithmetic limit of the device and against torch where it is installed.

    python -m bench.kernels [--json bench/results/kernels.json] [-k SUBSTRING ...] [--rounds 5]

Float32, on jax's default device. The limit is what one large matrix product reaches in the same run: a kernel's share
of it counts only its products' arithmetic. torch runs `nn.LSTM` and `nn.RNN` of the same sizes, on its GPU (by cuDNN)
where jax runs on one. All take turns; times are the least of all rounds. On CPU the shares are by processor time too,
of which a busy machine takes less notice.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.kernels import ops
from jfuse.verification.cores import cores

_SIDE = 1536  # of the matrices whose product is the limit
_LEAST_SECONDS = 0.2  # of a turn


@dataclass(frozen=True)
class Case:
    """One kernel at one size."""

    kind: str
    units: int
    steps: int
    features: int
    batch: int

    @property
    def name(self) -> str:
        return f"{self.kind} {self.units}, {self.steps} steps of {self.features}, batch {self.batch}"

    @property
    def gates(self) -> int:
        """How many products of each kind a step has."""
        return {"lstm": 4, "bilstm": 8, "rnn": 1}[self.kind]

    @property
    def flops(self) -> float:
        """Of the products of one batch."""
        return 2.0 * self.batch * self.steps * self.gates * self.units * (self.units + self.features)


CASES = (
    *(Case("lstm", 16, 20, 8, b) for b in (1, 64, 1024)),
    *(Case("lstm", 128, 50, 64, b) for b in (1, 64, 256)),
    *(Case("lstm", 512, 100, 64, b) for b in (1, 64, 256)),
    Case("bilstm", 128, 50, 64, 64),
    Case("rnn", 128, 50, 64, 256),
)


def ours(case: Case) -> Callable[[], Any]:
    """The kernel, jitted, with everything on the device."""
    rng = np.random.default_rng(0)

    def array(*shape: int) -> Any:
        return jax.device_put((0.1 * rng.standard_normal(shape)).astype(np.float32))

    n, i, b = case.units, case.features, case.batch
    x = array(b, case.steps, i)

    def direction() -> list[Any]:
        return [*(array(n, i) for _ in range(4)), *(array(n, n) for _ in range(4)), *3 * [None]]

    ends = [*(array(n) for _ in range(4)), None, None]
    if case.kind == "rnn":
        op, operands = ops.unidirectional_sequence_rnn, [array(n, i), array(n, n), array(n), array(b, n)]
    elif case.kind == "lstm":
        op, operands = ops.unidirectional_sequence_lstm, [*direction(), *ends, array(b, n), array(b, n)]
    else:
        states = [array(b, n) for _ in range(4)]
        op, operands = ops.bidirectional_sequence_lstm, [*direction(), *ends, *direction(), *ends, *states]
    program = jax.jit(lambda x, operands: op(x, *operands, time_major=False))
    return lambda: jax.block_until_ready(program(x, operands))


def theirs(case: Case, torch: Any) -> Callable[[], Any]:
    """torch's layer of the same sizes."""
    device = "cuda" if jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu"
    make = torch.nn.RNN if case.kind == "rnn" else torch.nn.LSTM
    layer = make(case.features, case.units, batch_first=True, bidirectional=case.kind == "bilstm").to(device)
    x = torch.randn(case.batch, case.steps, case.features, device=device)

    def run() -> None:
        with torch.inference_mode():
            layer(x)
            if device == "cuda":
                torch.cuda.synchronize()

    return run


def product() -> Callable[[], Any]:
    """The product that is the limit."""
    a = jax.device_put(np.random.default_rng(0).standard_normal((_SIDE, _SIDE)).astype(np.float32))
    program = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    return lambda: jax.block_until_ready(program(a))


def least(run: Callable[[], Any]) -> tuple[float, float]:
    """The least seconds of a run in one turn, and the mean seconds of the processor, whose clock is coarse."""
    run()
    walls: list[float] = []
    began, busy = time.perf_counter(), time.process_time()
    while time.perf_counter() < began + _LEAST_SECONDS:
        started = time.perf_counter()
        run()
        walls.append(time.perf_counter() - started)
    return min(walls), (time.process_time() - busy) / len(walls)


@dataclass(frozen=True)
class Row:
    """What was measured: microseconds for one sample; shares of the limit; torch's time over ours."""

    name: str
    us: float
    share: float
    processor_share: float
    torch_ratio: float | None


def measure(case: Case, rounds: int, torch: Any) -> Row:
    """One row."""
    runs = [product(), ours(case), *([] if torch is None else [theirs(case, torch)])]
    turns = [[least(run) for run in runs] for _ in range(rounds)]
    walls, processors = ([min(turn[i][k] for turn in turns) for i in range(len(runs))] for k in (0, 1))
    whole = 2.0 * _SIDE**3
    shares = [case.flops / own[1] / (whole / own[0]) for own in (walls, processors)]
    return Row(case.name, 1e6 * walls[1] / case.batch, *shares, walls[2] / walls[1] if torch is not None else None)


def installed(name: str) -> Any:
    """A module, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", nargs="*", default=[""])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch = installed("torch")
    rows = []
    print(f"{'':44}{'µs/sample':>11}{'of limit':>10}{'by processor':>14}{'torch':>8}")
    for case in CASES:
        if not any(part in case.name for part in arguments.k):
            continue
        row = measure(case, arguments.rounds, torch)
        rows.append(row)
        ratio = "" if row.torch_ratio is None else f"{row.torch_ratio:.2f}x"
        print(f"{row.name:44}{row.us:>11.2f}{row.share:>10.0%}{row.processor_share:>14.0%}{ratio:>8}", flush=True)
    if arguments.json:
        report = {
            "machine": f"{platform.machine()}, {cores()} cores",
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
            "torch": getattr(torch, "__version__", None),
            "rows": [asdict(row) for row in rows],
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
