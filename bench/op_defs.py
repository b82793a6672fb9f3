"""Writes the definitions of the TensorFlow ops that jfuse has rules for: `python -m bench.op_defs`."""

from __future__ import annotations

from pathlib import Path

import jfuse.frontends.sources  # noqa: F401  (registers the importer's handlers)
from jfuse.frontends.tensorflow.graph import HANDLERS
from jfuse.lowering.defaults import default_rules
from jfuse.tf_nodes.messages import message_class
from jfuse.tf_nodes.op_defs import TABLE

_BESIDES = ("Enter", "Exit", "Identity", "LoopCond", "Merge", "NextIteration", "NoOp", "Switch")


def lines() -> list[str]:
    """One OpDef a line, in text form, in alphabetical order."""
    from google.protobuf import text_format
    from tensorflow.python.framework import op_def_registry

    found = []
    for name in sorted({*default_rules().lowers, *HANDLERS, *_BESIDES}):
        definition = message_class("OpDef").FromString(op_def_registry.get(name).SerializeToString())
        definition.DiscardUnknownFields()  # descriptions
        found.append(text_format.MessageToString(definition, as_one_line=True))
    return found


if __name__ == "__main__":
    target = Path(__file__).parent.parent / "jfuse" / "tf_nodes" / TABLE
    target.write_text("\n".join(lines()) + "\n", encoding="utf-8")
