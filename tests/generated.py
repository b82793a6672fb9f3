"""The committed files that programs write, and one command that writes them.

    python -m tests.generated            # writes each file that is stale, and names it
    python -m tests.generated --check    # names them only; exit code 1 where there is one

Golden texts are written by `pytest --update-golden`, as their tests know how.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMAND = "run: python -m tests.generated"
"""What a test says that finds a stale file."""


def _spelled() -> str:
    from tests.op_cases import spelled

    return spelled.text()


def _op_defs() -> str:
    from tests.tf_nodes import op_def_table

    return op_def_table.text()


def _runs_on() -> str:
    from bench import runs_on

    return runs_on.markdown(json.loads((ROOT / runs_on.RESULT).read_text(encoding="utf-8")))


def _pipeline() -> str:
    from jfuse.reports import pass_list

    return pass_list.markdown()


def _options() -> str:
    import jfuse
    from tests.docs import option_list

    names = ("convert", "load", "lower", "quantize", "verify", "check", "bench", "tune", "optimize")
    return option_list.markdown({name: getattr(jfuse, name) for name in names})


def _schema(path: str) -> str:
    from tests import json_schemas

    (text,) = (json_schemas.text(form) for form in json_schemas.FORMATS.values() if json_schemas.path(form) == path)
    return text


_SCHEMAS = [
    f"docs/schemas/{name}.json"
    for name in ("verification", "check", "cost", "diff", "quantize_report", "benchmark", "ops", "rules", "passes")
]
GENERATED: Mapping[str, Callable[[], str]] = {
    "jfuse/reports/spelled.txt": _spelled,
    "jfuse/tf_nodes/op_defs.txtpb": _op_defs,
    "docs/runs-on.md": _runs_on,
    "docs/pipeline.md": _pipeline,
    "docs/options.md": _options,
    **{path: partial(_schema, path) for path in _SCHEMAS},
}
"""The path of each file from the root, and the function that gives its text."""


def stale(generated: Mapping[str, Callable[[], str]] = GENERATED, root: Path = ROOT) -> dict[str, str]:
    """The text of each file that is missing or differs from what its function gives now."""
    texts = {path: make() for path, make in generated.items()}
    return {path: text for path, text in texts.items() if not _is(root / path, text)}


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def main(arguments: Sequence[str], generated: Mapping[str, Callable[[], str]] = GENERATED, root: Path = ROOT) -> int:
    """Write or name what is stale; the exit code."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    found = stale(generated, root)
    for path, text in found.items():
        print(f"stale: {path}" if arguments else f"written: {path}")
        if not arguments:
            (root / path).write_text(text, encoding="utf-8")
    return int(bool(arguments and found))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.exit(main(sys.argv[1:]))
