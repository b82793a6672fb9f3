"""Why builtins of the schema have no kernel here, for the coverage page.

What the runtime has is measured on LiteRT 2.3.0, one file with one operator at a time.
"""

from __future__ import annotations

import re

_STATE = "how a file spells a state, which is a value in the IR: written and read with it"
_TABLE = "how a file spells a lookup table, which is two constants in the IR: written and read with HASHTABLE_FIND"
_STABLEHLO = "of a second set of operators, which converters from JAX and PyTorch write; the others say the "
_WITH = "ADD AND CASE COMPOSITE GATHER MAXIMUM MINIMUM MULTIPLY PAD REDUCE_WINDOW RNG_BIT_GENERATOR SCATTER SHIFT_LEFT"

_REASONS: tuple[tuple[str, str], ...] = (
    ("PLACEHOLDER_FOR_GREATER_OP_CODES", "no operator: what old readers find in place of codes above 126"),
    ("DELEGATE", "made by the runtime for what a delegate took; in no file"),
    ("CUSTOM", "any other operator: kept as it is, written on request ([unsupported.md](unsupported.md))"),
    ("CALL", "the runtime has no kernel; calls are inlined"),
    ("CONCAT_EMBEDDINGS", "the runtime has no kernel"),
    ("CALL_ONCE|VAR_HANDLE|READ_VARIABLE|ASSIGN_VARIABLE", _STATE),
    ("HASHTABLE|HASHTABLE_IMPORT", _TABLE),
    ("HASHTABLE_SIZE", "the size of a table is a constant when a model is converted"),
    ("DENSIFY", "makes sparse weights dense, which jfuse writes dense at once; kept where a file has it"),
    (f"STABLEHLO_({_WITH.replace(' ', '|')})", _STABLEHLO + "same"),
    (r"STABLEHLO_\w+", _STABLEHLO + "same, and the runtime has no kernel"),
)  # fmt: skip


def reason_for(builtin: str) -> str:
    """Why a builtin has no kernel; "" where nobody has said."""
    return next((reason for names, reason in _REASONS if re.fullmatch(names, builtin)), "")
