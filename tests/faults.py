"""Small faults in kernels, rules and passes: each must redden tests of the default suite that stand near it.

    python -m tests.faults [SUBSTRING ...]

Applies one fault at a time to a copy of the working tree, runs the tests named with it, and prints a line for each:
`found`, with the test that fails first, or `MISSED` where all pass. The exit code is 1 where one is missed, 2 where a
fault no longer fits the source: it is then written anew, for the code that took its place.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FAILED = 1  # pytest's exit code where tests ran and some failed; 2 to 5 are errors of the run


@dataclass(frozen=True)
class Fault:
    """One fault.

    path: the file, from the root. right, wrong: source text that stands there once, and what takes its place.
    tests: arguments of pytest.
    """

    name: str
    path: str
    right: str
    wrong: str
    tests: tuple[str, ...]

    def breaks(self, source: str) -> str:
        """The source with the fault; ValueError where its text does not stand there exactly once."""
        if source.count(self.right) != 1:
            raise ValueError(f"{self.name}: {self.path} has {self.right!r} {source.count(self.right)} times, not once")
        return source.replace(self.right, self.wrong)


_ROWS = "tests/lowering/test_op_cases.py"

FAULTS = (
    # Kernels.
    Fault(
        "kernel: LEAKY_RELU with the other sign",
        "kernels/nn/activation.py",
        "x.dtype.type(alpha) * x)",
        "x.dtype.type(-alpha) * x)",
        (_ROWS, "-k", "LeakyRelu"),
    ),
    Fault(
        "kernel: CONV_2D dilates height by the factor of width",
        "kernels/nn/conv.py",
        "    groups = x.shape[3] // weights.shape[3]\n"
        "    strides, dilations = (stride_h, stride_w), (dilation_h_factor, dilation_w_factor)",
        "    groups = x.shape[3] // weights.shape[3]\n"
        "    strides, dilations = (stride_h, stride_w), (dilation_w_factor, dilation_h_factor)",
        ("tests/kernels/nn", _ROWS, "-k", "conv and (2d or 2D or windows)"),
    ),
    Fault(
        "kernel: the LSTM's cell is not clipped",
        "kernels/fused/lstm_cell.py",
        "_clip(forget * c + admit * candidate, self.cell_clip)",
        "forget * c + admit * candidate",
        ("tests/kernels/fused/test_lstm.py",),
    ),
    Fault(
        "kernel: the LSTM's peepholes are left out",
        "kernels/fused/lstm_cell.py",
        "products if self.peephole is None else products + cell * self.peephole",
        "products",
        ("tests/kernels/fused/test_lstm.py",),
    ),
    # Rules.
    Fault(
        "rule: TruncateDiv rounds down",
        "lowering/ops/math/division.py",
        "ops.mul(ops.sign(quotient), ops.floor(ops.abs_(quotient)))",
        "ops.floor(quotient)",
        (_ROWS, "-k", "TruncateDiv"),
    ),
    Fault(
        "rule: a lossy CAST there and back is dropped",
        "lowering/peephole/arithmetic/cast.py",
        '    need(_holds(wide.outputs[0].type.dtype, x.type.dtype), "lossless_cast")\n',
        "",
        ("tests/lowering/peephole",),
    ),
    Fault(
        "rule: an LSTM's gate may read another carry",
        "lowering/recover/cells/lstm.py",
        'need(not others, "extra_carry", want=_affine(name)',
        'need(True, "extra_carry", want=_affine(name)',
        ("tests/lowering/recover/test_lstm.py",),
    ),
    Fault(
        "rule: a loop around an LSTM may carry another value",
        "lowering/recover/cells/lstm.py",
        '                same,\n                "extra_carry",',
        '                True,\n                "extra_carry",',
        ("tests/lowering/recover/test_lstm.py",),
    ),
    Fault(
        "rule: an RNN's step may read another carry",
        "lowering/recover/cells/rnn.py",
        'need(not others, "extra_carry"',
        'need(True, "extra_carry"',
        ("tests/lowering/recover/test_rnn.py",),
    ),
    Fault(
        "rule: a loop around an RNN may carry another value",
        "lowering/recover/cells/rnn.py",
        'need(same, "extra_carry"',
        'need(True, "extra_carry"',
        ("tests/lowering/recover/test_rnn.py",),
    ),
    # Passes.
    Fault(
        "pass: old values of a state leave the loop though the caller may set the state",
        "jfuse/passes/scans/fission/split_scans.py",
        "plan.changes_nothing or (plan.delayed and not delays)",
        "plan.changes_nothing",
        ("tests/passes/scans/test_split_scans.py",),
    ),
    Fault(
        "pass: a rerolled loop begins with the state of one step before, whatever the lag",
        "jfuse/passes/scans/reroll/emit.py",
        "        carries = [self._initial(loop.before[slot][loop.steps.start - lag])",
        "        carries = [self._initial(loop.before[slot][loop.steps.start - 1])",
        ("tests/passes/scans/test_reroll.py",),
    ),
    Fault(
        "pass: dead code elimination drops bodies with effects",
        "jfuse/passes/simplify/dce.py",
        "bool(eqn.effects) or any(has_effects(body) for body in eqn.bodies)",
        "bool(eqn.effects)",
        ("tests/passes/simplify",),
    ),
    Fault(
        "pass: the rows of a sequence that is read backwards are not turned",
        "jfuse/passes/scans/from_while/while_to_scan.py",
        "ops.reverse_v2(steps, [0]) if self._is_turned(read.index) else steps",
        "steps",
        ("tests/passes/scans/test_while_to_scan.py",),
    ),
    Fault(
        "pass: operands keep their shapes where the kernel does not broadcast",
        "jfuse/passes/legalize/legalize_broadcast.py",
        "return eqn.op.run(_of_one_shape(eqn), eqn.params, ())",
        "return None",
        ("tests/passes/legalize",),
    ),
    Fault(
        "pass: a fusion that costs more is kept",
        "jfuse/passes/fuse/profitability.py",
        "        compare(self.plain, self.fused, prefer)\n",
        "        return\n",
        ("tests/passes/fuse/test_profitability.py",),
    ),
    Fault(
        "pass: two states that become one value share a tensor",
        "jfuse/passes/states/placement.py",
        " and s.graph.outputs.count(after) == 1:",
        ":",
        ("tests/passes/states",),
    ),
    Fault(
        "pass: weights are cut, not rounded, to integers",
        "jfuse/passes/quantize/arrays.py",
        "np.clip(np.rint(array / scale), -last, last)",
        "np.clip(np.trunc(array / scale), -last, last)",
        ("tests/passes/quantize/test_weights.py",),
    ),
    # What judges them.
    Fault(
        "proof: case distinctions need no claim",
        "jfuse/proof/prove.py",
        "    refuse_unexplained(body, replacement, claims)\n    refuse_unchecked_indices",
        "    refuse_unchecked_indices",
        ("tests/proof",),
    ),
    Fault(
        "verification: integers may differ by a half of the largest",
        "jfuse/verification/compare/tolerance.py",
        'EXACT = Tolerance(0.0, "',
        'EXACT = Tolerance(0.5, "',
        ("tests/verification/compare",),
    ),
    Fault(
        "sources: Python functions are no outside effect",
        "jfuse/frontends/outside_effects.py",
        'r"(Eager)?PyFunc(Stateless)?|ReadFile',
        'r"ReadFile',
        ("tests/attack/test_saved_models.py",),
    ),
    Fault(
        "quantize: a range need not hold 0",
        "jfuse/passes/quantize/parameters.py",
        "    low, high = min(low, 0.0), max(high, 0.0)\n",
        "",
        ("tests/passes/quantize",),
    ),
    Fault(
        "quantize: the zero point of u8 is one off",
        "jfuse/passes/quantize/parameters.py",
        "quantization.zero_point[0] + 128,",
        "quantization.zero_point[0] + 127,",
        ("tests/passes/quantize", "tests/end_to_end/test_quantized.py", "tests/lite"),
    ),
    Fault(
        "outline: a composite hides a value that others read",
        "jfuse/passes/outline/region.py",
        "if not eqns or not whole or leaks:",
        "if not eqns or not whole:",
        ("tests/passes/outline",),
    ),
    Fault(
        "outline: what a part may be is not proven",
        "jfuse/passes/outline/target_composites.py",
        "        prove(part, said, tolerance=ROUNDED)\n",
        "        part, said = part, said\n",
        ("tests/passes/outline",),
    ),
    Fault(
        "write: constants stand at multiples of 4 bytes",
        "jfuse/tflite/write/buffers.py",
        "ALIGNMENT = 16",
        "ALIGNMENT = 4",
        ("tests/tflite/write",),
    ),
    Fault(
        "write: an open size is said to be 1",
        "jfuse/tflite/write/tensors.py",
        "d if is_known(d) else -1",
        "d if is_known(d) else 1",
        ("tests/tflite/write", "tests/tflite/read/test_file.py"),
    ),
    Fault(
        "write: a body hands an input on at another place",
        "jfuse/tflite/write/distinct_outputs.py",
        "is_body and i < len(graph.inputs) and atom is graph.inputs[i]",
        "is_body",
        ("tests/tflite/write/test_distinct_outputs.py",),
    ),
    Fault(
        "sources: a reduction of StableHLO begins with nothing",
        "jfuse/frontends/stablehlo/reductions.py",
        "        if _is(operands[1], neutral):\n",
        "        if neutral is not None:\n",
        ("tests/frontends/stablehlo",),
    ),
    Fault(
        "sources: a stored function's variables come in another order",
        "jfuse/frontends/stored_functions.py",
        "zip(arguments[count:], self._bound, strict=True)",
        "zip(arguments[count:], self._bound[::-1], strict=True)",
        (
            "tests/frontends/test_stored_functions.py",
            "tests/frontends/test_saved_model.py",
            "tests/frontends/test_keras.py",
        ),
    ),
    Fault(
        "verification: small differences are none",
        "jfuse/verification/compare/wrong.py",
        "float(ml_dtypes.finfo(wanted.dtype).tiny)",
        "float(ml_dtypes.finfo(wanted.dtype).eps)",
        ("tests/verification/compare/test_wrong.py",),
    ),
    Fault(
        "verification: a tie may be of values that are far apart",
        "jfuse/verification/compare/ties.py",
        "all(rounded)):\n            raise _TieMismatch\n",
        "all(rounded)):\n            pass\n",
        ("tests/verification/compare/test_ties.py",),
    ),
    Fault(
        "verification: rounding explains what a choice may turn over",
        "jfuse/verification/compare/conditioning.py",
        "        if not chooses(eqn):\n            return results\n",
        "        if chooses(eqn) or True:\n            return results\n",
        ("tests/verification/compare/test_conditioning.py",),
    ),
    # States and integers in other runtimes.
    Fault(
        "states: what is sized at run time may run before a fused recurrence",
        "jfuse/passes/states/state.py",
        "return late_sizes(fused_first(owned))",
        "return fused_first(owned)",
        ("tests/passes/states/test_late_sizes.py",),
    ),
    Fault(
        "integers: tflite-micro's LSTM cuts off what it keeps of its cell state",
        "kernels/integer/lstm.py",
        "_in_16_bits(multiplied(wide(forget) * wide(c), self._kept))",
        "_in_16_bits((wide(forget) * wide(c)) >> 15)",
        ("tests/kernels/integer/test_bodies.py", "tests/running/test_rounding.py", "-k", "micro or rounding"),
    ),
    Fault(
        "tables: recurrences of open batch fuse beside them",
        "jfuse/passes/fuse/fuse.py",
        "table_lookup(graph) or enclosure.table",
        "enclosure.table",
        ("tests/passes/fuse/test_table_beside_fused.py",),
    ),
)


def copied(root: Path, folder: Path) -> None:
    """Copy what git tracks, and new files that it does not ignore, with the links of jfuse/ as links."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.split("\0"):
        if name and (root / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name, follow_symlinks=False)


def run(fault: Fault, folder: Path) -> str:
    """The first test of a fault's that fails in a copy with the fault, "" where none does; the copy is mended then."""
    path = folder / fault.path
    source = path.read_text(encoding="utf-8")
    path.write_text(fault.breaks(source), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run([*command, *fault.tests], cwd=folder, env=environment, capture_output=True, text=True)
    finally:
        path.write_text(source, encoding="utf-8")
    if done.returncode not in (0, _FAILED):
        raise RuntimeError(f"pytest ends with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return next((line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), "")


def main(parts: Sequence[str]) -> int:
    """Try each fault whose name contains one of the parts; 1 where one is missed, 2 where one no longer fits."""
    chosen = [fault for fault in FAULTS if not parts or any(part in fault.name for part in parts)]
    code = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        copied(ROOT, folder)
        for fault in chosen:
            begun = time.perf_counter()
            try:
                found = run(fault, folder)
            except ValueError as gone:
                print(gone, flush=True)
                code = 2
                continue
            seconds = time.perf_counter() - begun
            print(f"{'found' if found else 'MISSED'} in {seconds:.0f} s: {fault.name}  {found}", flush=True)
            code = code if found else max(code, 1)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
