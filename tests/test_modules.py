"""A long module has tests where one looks for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_imports import MODULES, PACKAGES, ROOT, imports

LONG = 150  # lines
MOST_WITH_ONE_IMPORTER = 265
TESTS = ROOT / "tests"
_IMPORT = re.compile(r"^ *(?:from|import) (jfuse[.\w]*)", re.MULTILINE)

TESTED_IN = {
    "jfuse.base.options": "test_house.py",
    "jfuse.base.errors": "test_public_face.py",
    "jfuse.differences": "api/test_diff.py",
    "jfuse.benchmark": "benchmark/test_bench.py",
    "jfuse.cli.conversion": "cli/test_cli.py",
    "jfuse.cli.measured_commands": "cli/test_options.py",
    "jfuse.frontends.jaxprs": "frontends/jax_functions/test_primitives.py",
    "jfuse.frontends.keras_archive": "attack/test_keras_archives.py",
    "jfuse.frontends.sources": "frontends/test_import.py",
    "jfuse.frontends.stablehlo": "frontends/stablehlo/test_exported.py",
    "jfuse.frontends.tensorflow": "frontends/test_import.py",
    "jfuse.frontends.torch_modules": "frontends/torch_modules/test_operators.py",
    "jfuse.ir.literals": "test_parse.py",
    "jfuse.ir.parser": "test_parse.py",
    "jfuse.ir.scanner": "test_parse.py",
    "jfuse.ir.sparse": "tflite/read/test_sparse.py",
    "jfuse.ir.states": "passes/states/test_placement.py",
    "jfuse.kernels.array.pieces": "lowering/test_op_cases.py",
    "jfuse.kernels.core.tfl_op": "kernels/core/test_op.py",
    "jfuse.kernels.fused.lstm_cell": "kernels/fused/test_lstm.py",
    "jfuse.kernels.integer": "kernels/integer/test_bodies.py",
    "jfuse.kernels.math": "lowering/test_op_cases.py",
    "jfuse.kernels.nn.pool": "kernels/nn/test_windows.py",
    "jfuse.lite.quantization_mode": "lite/test_quantization_guides.py",
    "jfuse.api.lower": "end_to_end",
    "jfuse.lowering.composites.embedding": "passes/fuse/test_fuse_lookup.py",
    "jfuse.lowering.composites.lingvo": "end_to_end/recurrences/test_lingvo.py",
    "jfuse.lowering.composites.sequence": "end_to_end/recurrences/test_recurrent.py",
    "jfuse.lowering.from_jax": "frontends/stablehlo/test_exported.py",
    "jfuse.lowering.from_torch": "frontends/torch_modules/test_operators.py",
    "jfuse.lowering.ops": "lowering/test_op_cases.py",
    "jfuse.lowering.peephole.layout": "lowering/peephole/test_layout_regions.py",
    "jfuse.lowering.recover.algebra": "lowering/recover/test_forms.py",
    "jfuse.lowering.recover.cells": "lowering/recover/test_lstm.py",
    "jfuse.lowering.scaled_products": "passes/quantize/test_trained_ranges.py",
    "jfuse.model": "test_public_face.py",
    "jfuse.verification.quantization_noise": "verification/quantization_noise/test_figures_of_tensors.py",
    "jfuse.passes.legalize.complex_parts": "passes/legalize/test_complex_loops.py",
    "jfuse.passes.outline": "passes/outline/test_target_composites.py",
    "jfuse.passes.quantize": "passes/quantize/test_integers.py",
    "jfuse.passes.quantize.ranges.trained": "passes/quantize/test_trained_ranges.py",
    "jfuse.passes.scans.fission": "passes/scans/test_split_scans.py",
    "jfuse.passes.scans.from_while": "passes/scans/test_while_to_scan.py",
    "jfuse.passes.states": "passes/states/test_streams.py",
    "jfuse.passes.states.carries": "passes/states/test_state.py",
    "jfuse.frontends.jax_functions.states": "end_to_end/other_sources/test_jax_states.py",
    "jfuse.programs.operator_times": "benchmark/test_bench.py",
    "jfuse.proof.by_equation": "proof/test_prove.py",
    "jfuse.proof.symbolic": "proof/symbolic/test_prover.py",
    "jfuse.api.quantize": "end_to_end/test_quantized.py",
    "jfuse.records.conversion": "reports/test_report_text.py",
    "jfuse.running.litert_worker": "attack/test_workers.py",
    "jfuse.running.litert_worker.tallies": "quantization/test_in_litert.py",
    "jfuse.running.over_samples": "verification/runners/test_batches.py",
    "jfuse.api.sides": "verification/test_what_passes.py",
    "jfuse.tf_nodes.well_formed": "attack/test_saved_models.py",
    "jfuse.tflite.options": "tflite/write/test_file.py",
    "jfuse.tflite.read": "tflite/read/test_file.py",
    "jfuse.tflite.runtime": "tflite/runtime/test_table.py",
    "jfuse.tflite.targets.target": "tflite/targets/test_catalog.py",
    "jfuse.tflite.write": "tflite/write/test_file.py",
    "jfuse.verification.compare.steep_inputs": "verification/compare/test_compare.py",
    "jfuse.verification.compare.matching": "verification/compare/test_compare.py",
    "jfuse.verification.compare.sample_share": "verification/runners/test_processes.py",
    "jfuse.verification.failures": "verification/test_verify.py",
    "jfuse.verification.inputs.user_inputs": "verification/test_verify.py",
    "jfuse.verification.locate": "verification/locate/test_bisect.py",
    "jfuse.verification.matched_sides": "verification/test_what_passes.py",
}
"""The tests of long modules, or packages, for which no file has the name."""


def long_modules() -> list[str]:
    """Modules of more lines than `LONG`."""
    files = ((m, path) for m, path in MODULES.items() if m not in PACKAGES)
    return [m for m, path in files if path.read_text(encoding="utf-8").count("\n") > LONG]


def mirrored(module: str) -> bool:
    """Whether a test file, in the folder of the module or of a package around it, has the name of either."""
    _, *parts = module.split(".")
    places = ((TESTS.joinpath(*parts[:n]), parts[n:]) for n in range(len(parts)))
    return any((folder / f"test_{part}.py").exists() for folder, inner in places for part in inner)


def imported_by_tests() -> dict[str, set[str]]:
    """The modules that the test files of each room import; tests of no room have the room ''."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        room = path.relative_to(TESTS).parts[0] if path.parent != TESTS else ""
        found.setdefault(room, set()).update(_IMPORT.findall(path.read_text(encoding="utf-8")))
    return found


def lines_of(module: str) -> Iterator[str]:
    """The entries of `TESTED_IN` for a module, the most specific one first."""
    parts = module.split(".")
    yield from (name for n in range(len(parts), 1, -1) if (name := ".".join(parts[:n])) in TESTED_IN)


def test_long_modules_have_tests() -> None:
    """Those of its name, or of its room that import it, or those that a line of `TESTED_IN` names."""
    by_room = imported_by_tests()
    direct = {m for m in MODULES if m in by_room.get(m.split(".")[1] if m.count(".") > 1 else "", ())}
    others = [m for m in long_modules() if not mirrored(m) and m not in direct]
    assert [m for m in others if not any(lines_of(m))] == [], "long modules without tests"
    used = {next(lines_of(m)) for m in others if any(lines_of(m))}
    assert TESTED_IN.keys() - used == set(), "lines of no use"
    assert [place for place in TESTED_IN.values() if not _is_there(place)] == []


def _is_there(place: str) -> bool:
    return Path(TESTS, place).exists()


def test_few_modules_have_one_importer() -> None:
    """Code that one module alone needs stands in that module; lists of rules and of rows import each of their files."""
    importers: dict[str, set[str]] = {}
    for found in imports():
        importers.setdefault(found.target, set()).add(found.module)
    alone = sorted(module for module in MODULES.keys() - PACKAGES if len(importers.get(module, ())) == 1)
    print(f"modules: {len(MODULES)}; with one importer: {len(alone)}")
    assert len(alone) <= MOST_WITH_ONE_IMPORTER
