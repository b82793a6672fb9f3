"""What becomes of wrong rules: of all mutants of fused operators, how many are refused, found, or written.

    python -m tests.proof.symbolic.kill_rates [--every 1] [--parts prover samples before] [--pairs lstm rnn ...]
        [--json bench/results/kill_rates.json]

The rule of a marked recurrence gives the mutant in place of the right operator, and the model is converted as a user
would. "refused": the fusion is not made. "found": verification of the whole file fails. Else the file is written, and
the fusion called "tested" or "proven".

Parts: "prover" is jfuse as it is. "samples" has the prover switched off. "before" is the comparison as it was when
samples were called a proof: at most 5 rows and 3 steps, no values beyond limits, a switch explained by any of its
family.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np

import jfuse
from jfuse.base.errors import VerifyFailed
from jfuse.base.memo import Memo
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.proof import distinctions, prove, proven_before
from jfuse.proof.symbolic.prover import NOT_TRIED
from tests.cells import BATCH
from tests.proof.symbolic.mutants import mutant, mutants
from tests.proof.symbolic.pairs import PAIRS

FATES = ("refused", "found", "tested", "proven")
_ROWS = 5  # of the largest batch, before


def source(body: Graph) -> Any:
    """A jax function that calls a marked recurrence."""

    def run(*operands: Any) -> Any:
        return evaluate(body, operands)

    return jax.lax.composite(run, name="acme.recurrence")


def fate(body: Graph, replacement: Graph) -> str:
    """What becomes of a model whose rule gives that operator."""

    @jfuse.fuses("acme.recurrence", default=False)
    def rule(*operands: Any) -> Any:
        return evaluate(replacement, operands[-len(replacement.inputs) :])  # constants of the body come first

    specs = [jax.ShapeDtypeStruct(v.type.shape, np.float32) for v in body.inputs]
    options: Any = {"rules": [rule], "forms": jfuse.Forms(recover=False)}
    # Without the operator the file is that of any loop: no need to verify it once for each mutant.
    if not jfuse.convert(source(body), specs, verify=False, **options).report.fused:
        return "refused"
    try:
        return jfuse.convert(source(body), specs, **options).report.fused[0].proof
    except VerifyFailed:
        return "found"


@contextmanager
def compared_by(part: str) -> Iterator[None]:
    """Compare fusions as a part does."""
    changes: list[Any] = [mock.patch.object(proven_before, "_PROOFS", Memo(1))]
    if part != "prover":
        changes.append(mock.patch.object(prove, "prove_symbolically", return_value=NOT_TRIED))
    if part == "before":
        shapes = vars(prove)["open_shapes"]
        changes += [
            mock.patch.object(prove, "refuse_new_cases"),
            mock.patch.object(prove, "_beyond_limits", lambda pair, sampler, cases, seed, proof: proof),
            mock.patch.object(prove, "_long_runs", return_value=({}, prove._SAMPLES)),
            mock.patch.object(prove, "open_shapes", lambda types, steps=None: shapes(types, {str(BATCH): _ROWS})),
            mock.patch.object(distinctions, "step_number_uses", side_effect=lambda graph: iter(())),
            mock.patch.object(distinctions, "rounding_step", return_value=None),
        ]
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(change)
        yield


def counts(rows: Sequence[tuple[str, str]]) -> dict[str, int]:
    """How many mutants come to each fate; those that are written are printed."""
    words = Counter[str]()
    for pair, name in rows:
        word = fate(PAIRS[pair]().body, mutant(pair, name))
        words[word] += 1
        if word not in ("refused", "found"):
            print(f"  written as {word}: {pair}, {name}", flush=True)
    return {word: words[word] for word in FATES}


def _print_row(part: str, pair: str, of: Mapping[str, int]) -> None:
    print(f"{part:10}{pair:20}{sum(of.values()):>8}" + "".join(f"{of[w]:>9}" for w in FATES), flush=True)


def main() -> None:
    """Print the table; with --json write it as well, after each of its rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="of the mutants one in so many")
    parser.add_argument("--parts", nargs="+", default=["prover", "samples", "before"])
    parser.add_argument("--pairs", nargs="+", default=None)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    by_pair: dict[str, list[tuple[str, str]]] = {}
    for row in list(mutants())[:: arguments.every]:
        if arguments.pairs is None or row[0] in arguments.pairs:
            by_pair.setdefault(row[0], []).append(row)
    print(f"{'part':10}{'operator':20}{'mutants':>8}" + "".join(f"{word:>9}" for word in FATES))
    table: dict[str, dict[str, dict[str, int]]] = {}
    for part in arguments.parts:
        of_part = table[part] = {}
        with compared_by(part):
            for pair, rows in by_pair.items():
                of_part[pair] = counts(rows)
                _print_row(part, pair, of_part[pair])
                if arguments.json:
                    report = {"every": arguments.every, "parts": table}
                    arguments.json.write_text(json.dumps(report, indent=1) + "\n")
        _print_row(part, "all", {word: sum(of[word] for of in of_part.values()) for word in FATES})


if __name__ == "__main__":
    main()
