"""How long proofs of fusions take, and how much longer conversions take with them than without.

    python -m bench.proof [--json bench/results/proof.json] [--rounds 9] [-k SUBSTRING ...]

The models are single recurrences of Keras 3, with an open batch. A proof is of the body that the conversion recovers
and the operator that replaces it, as the conversion asks for it, all of a model's together; the seconds are the least
by the clock and by the process, after a first round that nobody counts. Conversions, without verification, are made in
turns with the prover and with it switched off, where samples decide alone; the ratio is that of the least times.
First conversions compile the programs that run samples, as a user's do; the others find them compiled.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jfuse
from jfuse.base.memo import Memo
from jfuse.ir.evaluate import shared_program
from jfuse.proof import prove as proofs
from jfuse.proof import proven_before
from jfuse.proof.symbolic.prover import NOT_TRIED, Verdict, prove_symbolically
from jfuse.running.cores import cores

Proving = Callable[[], Verdict]


def models() -> Mapping[str, Callable[[], Any]]:
    """The models by name."""
    import keras

    layers = keras.layers

    def sequence(steps: int | None, *inner: Any, width: int = 64) -> Callable[[], Any]:
        return lambda: keras.Sequential([keras.Input((steps, width)), *inner])

    def masked(steps: int | None) -> Any:
        source = keras.Input((steps, 64))
        return keras.Model(source, layers.LSTM(64, return_state=True)(layers.Masking()(source)))

    return {
        "LSTM 64": sequence(None, layers.LSTM(64)),
        "LSTM 512": sequence(None, layers.LSTM(512), width=512),
        "LSTM 512, 50 steps": sequence(50, layers.LSTM(512), width=512),
        "RNN 64": sequence(None, layers.SimpleRNN(64)),
        "GRU 64": sequence(None, layers.GRU(64)),
        "bidirectional LSTM 64": sequence(None, layers.Bidirectional(layers.LSTM(64))),
        "two bidirectional LSTMs, 24 steps": sequence(
            24,
            layers.SeparableConv1D(48, 5),
            layers.Bidirectional(layers.LSTM(24, return_sequences=True)),
            layers.Bidirectional(layers.LSTM(16)),
            width=40,
        ),
        "masked LSTM 64, states": lambda: masked(None),
        "masked LSTM 64, 50 steps, states": lambda: masked(50),
    }


def convert(model: Any) -> Any:
    """Convert a model as if its fusions had not been proven before."""
    with mock.patch.object(proven_before, "_PROOFS", Memo(1)):
        return jfuse.convert(model, forms=jfuse.Forms(padding="right"), verify=False)


def convert_first(model: Any) -> Any:
    """Convert a model as if no program had been compiled before."""
    with mock.patch.dict(shared_program.__globals__, {"_PROGRAMS": Memo(64)}):
        return convert(model)


def proofs_of(model: Any) -> tuple[list[str], list[Proving]]:
    """The word for each fusion of a conversion, and the calls of the prover in it."""
    calls: list[Proving] = []

    def noted(*operands: Any, **options: Any) -> Verdict:
        calls.append(lambda: prove_symbolically(*operands, **options))
        return calls[-1]()

    with mock.patch.object(proofs, "prove_symbolically", noted):
        words = [fusion.proof for fusion in convert(model).report.fused]
    return words, calls


def least(runs: Sequence[Callable[[], Any]], rounds: int) -> list[tuple[float, float]]:
    """The least seconds of each run, in turns, by the clock and by the process."""
    times: list[list[tuple[float, float]]] = [[] for _ in runs]
    for _ in range(rounds + 1):
        for seconds, run in zip(times, runs, strict=True):
            wall, used = time.perf_counter(), time.process_time()
            run()
            seconds.append((time.perf_counter() - wall, time.process_time() - used))
    return [(min(w for w, _ in of[1:]), min(u for _, u in of[1:])) for of in times]


def row(model: Any, rounds: int) -> dict[str, Any]:
    """The words of a model's fusions, the times of their proofs, and those of a conversion with them and without."""
    words, calls = proofs_of(model)
    ((wall, used),) = least([lambda: [call() for call in calls]], rounds)

    def without(conversion: Callable[[Any], Any]) -> Any:
        with mock.patch.object(proofs, "prove_symbolically", return_value=NOT_TRIED):
            return conversion(model)

    runs = [lambda: convert(model), lambda: without(convert)]
    firsts = [lambda: convert_first(model), lambda: without(convert_first)]
    (proving, used_proving), (testing, used_testing) = least(runs, rounds)
    (first, used_first), (first_testing, used_first_testing) = least(firsts, -(-rounds // 3))
    return {
        "words": words,
        "proof_s": wall,
        "proof_process_s": used,
        "convert_s": proving,
        "convert_without_s": testing,
        "ratio": proving / testing,
        "process_ratio": used_proving / used_testing,
        "first_s": first,
        "first_without_s": first_testing,
        "first_ratio": first / first_testing,
        "first_process_ratio": used_first / used_first_testing,
    }


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("-k", nargs="*", default=[""], metavar="SUBSTRING")
    arguments = parser.parse_args()
    rows = {}
    print(
        f"{'model':36}{'proofs':>10}{'of process':>12}{'conversion':>12}{'without':>10}"
        f"{'ratio':>7}{'of process':>12}{'first':>7}{'of process':>12}  fusions"
    )
    for name, build in models().items():
        if not any(part in name for part in arguments.k):
            continue
        of = rows[name] = row(build(), arguments.rounds)
        print(
            f"{name:36}{of['proof_s']:>8.3f} s{of['proof_process_s']:>10.3f} s{of['convert_s']:>10.3f} s"
            f"{of['convert_without_s']:>8.3f} s{of['ratio']:>7.2f}{of['process_ratio']:>12.2f}"
            f"{of['first_ratio']:>7.2f}{of['first_process_ratio']:>12.2f}  " + ", ".join(of["words"]),
            flush=True,
        )
    if arguments.json:
        report = {"machine": f"{platform.machine()}, {cores()} cores", "rounds": arguments.rounds, "rows": rows}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
