"""The recurrent kernels on XLA, against the limit of the device and against torch where it is installed.

    python -m bench.kernels [--json bench/results/kernels.json] [-k SUBSTRING ...] [--rounds 5]

Float32 in highest precision, on jax's default device. The limit is the slower of two: the arithmetic of the kernel's
products at the rate of large matrix products, and what it must read and write (the weights at each step, input and
output once) at the rate of products of one row with a matrix as large as the weights, on a GPU with one of 256 MiB.
Both rates are measured in the same run; on CPU the better of XLA's and NumPy's counts. Nonlinearities and what starting
a program costs count for nothing, so small sizes are far from it. torch runs `nn.LSTM` and `nn.RNN` of the same
weights, on its GPU (by cuDNN) where jax runs on one. All take turns, with as many threads as jax; times are the least
of all rounds. Each error is the largest distance from the formula in float64, relative to the largest output: the
kernel's must stay below 1e-5; cuDNN's reaches 1e-5. On a CPU the table has processor time as well, which other programs
disturb less. On a GPU the steps of an LSTM as Pallas kernels (`bench.pallas_lstm`) take a turn as well,
where their blocks divide the sizes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bench.pallas_lstm import lstm as pallas_lstm
from jfuse.base.measure import relative_error
from jfuse.kernels import ops
from jfuse.running.cores import cores

_LEAST_SECONDS = 0.2  # of a turn
_TOLERANCE = 1e-5  # from the formula in float64: float32 sums over 100 steps
_FROM_MEMORY = 2**26  # weights, more than the caches of a GPU hold
_PASSES_BYTES = 2e8  # that the products of one row read in one call, so that a call costs little beside


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
    def directions(self) -> int:
        return 2 if self.kind == "bilstm" else 1

    @property
    def gates(self) -> int:
        """Of one direction."""
        return 1 if self.kind == "rnn" else 4

    @property
    def weights(self) -> int:
        """How many weights are read at each step."""
        return self.directions * self.gates * self.units * (self.units + self.features)

    @property
    def flops(self) -> float:
        """Of the products of one batch."""
        return 2.0 * self.batch * self.steps * self.weights

    @property
    def bytes(self) -> float:
        """That one batch must read and write."""
        return 4.0 * self.steps * (self.weights + self.batch * (self.features + self.directions * self.units))


CASES = (
    *(Case("lstm", 16, 20, 8, b) for b in (1, 64, 1024)),
    *(Case("lstm", 128, 50, 64, b) for b in (1, 64, 256)),
    *(Case("lstm", 512, 100, 64, b) for b in (1, 64, 256, 1024)),
    Case("bilstm", 128, 50, 64, 64),
    Case("rnn", 128, 50, 64, 256),
)


class Direction(NamedTuple):
    """Weights f[n,i] and f[n,n] and biases f[n] of each gate, and the states f[b,n] before the first step."""

    inputs: Sequence[np.ndarray]
    recurrent: Sequence[np.ndarray]
    biases: Sequence[np.ndarray]
    states: Sequence[np.ndarray]


def drawn(case: Case) -> tuple[np.ndarray, list[Direction]]:
    """The input f[b,t,i], and what each direction computes with; sums of a gate are about 1."""
    rng = np.random.default_rng(0)
    n, i, b = case.units, case.features, case.batch

    def arrays(count: int, *shape: int, scale: float = 1.0) -> list[np.ndarray]:
        return [(scale * rng.standard_normal(shape)).astype(np.float32) for _ in range(count)]

    weights, states = (n + i) ** -0.5, 1 if case.kind == "rnn" else 2
    directions = [
        Direction(
            arrays(case.gates, n, i, scale=weights),
            arrays(case.gates, n, n, scale=weights),
            arrays(case.gates, n, scale=0.1),
            arrays(states, b, n, scale=0.1),
        )
        for _ in range(case.directions)
    ]
    return arrays(1, b, case.steps, i)[0], directions


def ours(case: Case) -> Callable[[], Any]:
    """The kernel, jitted, with everything on the device; a call gives the outputs of all steps."""
    x, directions = drawn(case)
    # Neither peepholes nor projection.
    of_lstm: list[list[Any]] = [[*d.inputs, *d.recurrent, *3 * [None], *d.biases, None, None] for d in directions]
    states = [state for d in directions for state in d.states]
    operands: list[Any]
    if case.kind == "rnn":
        (d,) = directions
        op, operands = ops.unidirectional_sequence_rnn, [*d.inputs, *d.recurrent, *d.biases, *states]
    elif case.kind == "lstm":
        op, operands = ops.unidirectional_sequence_lstm, [*of_lstm[0], *states]
    else:
        op, operands = ops.bidirectional_sequence_lstm, [*of_lstm[0], *of_lstm[1], *states]
    on_device = jax.device_put([x, *operands])

    def outputs(operands: Sequence[Any]) -> Any:
        found = op(*operands, time_major=False)
        return found[: case.directions]

    program = jax.jit(outputs)
    return lambda: jax.block_until_ready(program(on_device))


def theirs(case: Case, torch: Any) -> Callable[[], Any]:
    """torch's layer with the same weights; a call gives its outputs."""
    device = "cuda" if jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu"
    torch.set_num_threads(cores())
    torch.backends.cudnn.allow_tf32 = False  # would round the operands to fewer bits
    make = torch.nn.RNN if case.kind == "rnn" else torch.nn.LSTM
    layer = make(case.features, case.units, batch_first=True, bidirectional=case.directions == 2)
    x, directions = drawn(case)
    for suffix, d in zip(("", "_reverse"), directions, strict=False):
        # Both have the gates in the order input, forget, cell, output. torch adds a second bias.
        of_suffix = {
            "weight_ih": np.concatenate(d.inputs),
            "weight_hh": np.concatenate(d.recurrent),
            "bias_ih": np.concatenate(d.biases),
            "bias_hh": np.zeros(case.gates * case.units, np.float32),
        }
        for name, value in of_suffix.items():
            getattr(layer, f"{name}_l0{suffix}").data.copy_(torch.from_numpy(value))
    layer = layer.eval().to(device)
    operand = torch.from_numpy(x).to(device)
    states = [
        torch.from_numpy(np.stack(state)).to(device) for state in zip(*(d.states for d in directions), strict=True)
    ]
    start = states[0] if case.kind == "rnn" else tuple(states)

    def run() -> Any:
        with torch.inference_mode():
            found = layer(operand, start)[0]
            if device == "cuda":
                torch.cuda.synchronize()
            return found

    return run


def by_pallas(case: Case) -> Callable[[], Any] | None:
    """`bench.pallas_lstm` with the same weights; None where that cannot run."""
    if case.kind != "lstm" or jax.default_backend() == "cpu" or case.batch % 16 or case.units % 16:
        return None
    x, (d,) = drawn(case)
    gates = [np.stack(of_gates) for of_gates in (d.inputs, d.recurrent, d.biases)]
    on_device = jax.device_put([x, *gates, *d.states])
    program = jax.jit(pallas_lstm)
    return lambda: [jax.block_until_ready(program(*on_device))]


def formula(case: Case) -> np.ndarray:
    """The outputs of all steps f64[b,t,n], in NumPy.   Source: Hochreiter and Schmidhuber 1997, with a forget gate"""
    x, directions = drawn(case)
    outputs = []
    for backward, d in enumerate(directions):
        weights = [np.float64(of_gates) for of_gates in (d.inputs, d.recurrent, d.biases)]
        h, *cell = (np.float64(state) for state in d.states)
        steps = []
        for step in np.moveaxis(np.float64(x), 1, 0)[:: -1 if backward else 1]:
            sums = [step @ w.T + h @ r.T + b for w, r, b in zip(*weights, strict=True)]
            if cell:
                into, forget, _, out = (1 / (1 + np.exp(-v)) for v in sums)
                cell = [forget * cell[0] + into * np.tanh(sums[2])]
                h = out * np.tanh(cell[0])
            else:
                h = np.tanh(sums[0])
            steps.append(h)
        outputs.append(np.stack(steps[:: -1 if backward else 1], 1))
    return np.concatenate(outputs, -1)


def error(outputs: Any, exact: np.ndarray) -> float:
    """The largest distance from the formula, relative to its largest value."""
    return relative_error(np.concatenate([np.asarray(v) for v in outputs], -1), exact)


class Limit(NamedTuple):
    """Something that reaches a limit: how much one call does, and the call."""

    work: float
    run: Callable[[], Any]


def products() -> list[Limit]:
    """Large products, by their operations."""
    on_cpu = jax.default_backend() == "cpu"
    side = 768 if on_cpu else 4096  # so large that a CPU's caches still hold them
    a = np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)
    on_device = jax.device_put(a)
    program = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    found = [Limit(2.0 * side**3, lambda: jax.block_until_ready(program(on_device)))]
    return [*found, Limit(2.0 * side**3, lambda: a @ a)] if on_cpu else found


def readers(weights: int) -> list[Limit]:
    """Products of one row with so many weights, again and again, by the bytes of these."""
    on_cpu = jax.default_backend() == "cpu"
    if not on_cpu:  # small ones would tell how long it takes to start a program
        weights = max(weights, _FROM_MEMORY)
    rows = int(weights**0.5)
    a = np.random.default_rng(0).standard_normal((rows, weights // rows)).astype(np.float32)
    passes = max(4, int(_PASSES_BYTES / a.nbytes))
    on_device, row = jax.device_put(a), np.ones((1, rows), np.float32)

    @jax.jit
    def program(a: Any, row: Any) -> Any:
        def again(_: Any, row: Any) -> Any:
            return row + 1e-9 * jnp.matmul(row, a, precision="highest")[:, :1]

        return jax.lax.fori_loop(0, passes, again, row)

    found = [Limit(float(passes * a.nbytes), lambda: jax.block_until_ready(program(on_device, row)))]
    return [*found, Limit(float(a.nbytes), lambda: row @ a)] if on_cpu else found


class Seconds(NamedTuple):
    """Of one run: by the clock, and of the processor."""

    wall: float
    processor: float


def least(run: Callable[[], Any]) -> Seconds:
    """The least seconds of a run in one turn, and the mean seconds of the processor, whose clock is coarse."""
    run()
    walls: list[float] = []
    began, busy = time.perf_counter(), time.process_time()
    while time.perf_counter() < began + _LEAST_SECONDS:
        started = time.perf_counter()
        run()
        walls.append(time.perf_counter() - started)
    return Seconds(min(walls), (time.process_time() - busy) / len(walls))


@dataclass(frozen=True)
class Row:
    """Measured times of one kernel: microseconds a sample, share of the hardware limit, times of others over ours.

    Those by processor time are None where the processor does not compute. pallas_ratio: below 1 where the steps of
    `bench.pallas_lstm` are faster than the kernel, None where they cannot run.
    """

    name: str
    us: float
    limit: str
    share: float
    processor_share: float | None
    torch_ratio: float | None
    torch_processor_ratio: float | None
    error: float
    torch_error: float | None
    pallas_ratio: float | None


def measure(case: Case, rounds: int, torch: Any) -> Row:
    """One row."""
    kernel = ours(case)
    limits = {"arithmetic": products(), "memory": readers(case.weights)}
    layer = None if torch is None else theirs(case, torch)
    pallas = by_pallas(case)
    exact = formula(case)
    errors = [error(kernel(), exact), None if layer is None else error([layer().cpu()], exact)]
    for outputs in (kernel(), *([pallas()] if pallas else [])):
        if (apart := error(outputs, exact)) > _TOLERANCE:
            raise SystemExit(f"{case.name}: {apart:.1e} from the formula, more than {_TOLERANCE:.0e}")
    flat = [limit for kind in limits.values() for limit in kind]
    runs = [kernel, *(limit.run for limit in flat), layer or kernel, pallas or kernel]
    turns = [[least(run) for run in runs] for _ in range(rounds)]
    best = [Seconds(*map(min, zip(*(turn[i] for turn in turns), strict=True))) for i in range(len(runs))]
    own, other, steps = best[0], best[-2], best[-1]
    needs = {"arithmetic": case.flops, "memory": case.bytes}

    def fastest(clock: str) -> dict[str, float]:
        taken = {id(limit): getattr(s, clock) for limit, s in zip(flat, best[1:], strict=False)}
        return {kind: needs[kind] * min(taken[id(v)] / v.work for v in found) for kind, found in limits.items()}

    by_wall, by_processor = fastest("wall"), fastest("processor")
    name = max(by_wall, key=by_wall.__getitem__)
    on_cpu = jax.default_backend() == "cpu"
    return Row(
        case.name,
        1e6 * own.wall / case.batch,
        name,
        by_wall[name] / own.wall,
        by_processor[name] / own.processor if on_cpu else None,
        None if layer is None else other.wall / own.wall,
        other.processor / own.processor if layer is not None and on_cpu else None,
        *errors,
        None if pallas is None else steps.wall / own.wall,
    )


def installed(name: str) -> Any:
    """A module, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_HEAD = f"{'':44}{'µs/sample':>11}  {'limit':<12}{'share':>6}{'processor':>11}{'torch':>8}{'processor':>11}"
_HEAD += f"{'error':>9}{'torch':>9}{'pallas':>8}"


def line(row: Row) -> str:
    """A row of the table."""
    cells = [f"{row.name:44}{row.us:>11.2f}  {row.limit:<12}{row.share:>6.0%}"]
    cells.append(" " * 11 if row.processor_share is None else f"{row.processor_share:>11.0%}")
    for ratio, width in ((row.torch_ratio, 8), (row.torch_processor_ratio, 11)):
        cells.append(" " * width if ratio is None else f"{ratio:>{width - 1}.2f}x")
    cells += [" " * 9 if apart is None else f"{apart:>9.0e}" for apart in (row.error, row.torch_error)]
    cells.append("" if row.pallas_ratio is None else f"{row.pallas_ratio:>7.2f}x")
    return "".join(cells).rstrip()


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", nargs="*", default=[""])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch = installed("torch")
    rows = []
    print(_HEAD)
    for case in CASES:
        if not any(part in case.name for part in arguments.k):
            continue
        rows.append(measure(case, arguments.rounds, torch))
        print(line(rows[-1]), flush=True)
    if arguments.json:
        report = {
            "machine": f"{platform.machine()}, {cores()} of {os.cpu_count()} cores",
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
            "torch": getattr(torch, "__version__", None),
            "rows": [asdict(row) for row in rows],
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
