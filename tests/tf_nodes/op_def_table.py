"""The definitions of the TensorFlow ops that jfuse has rules for: `python -m tests.generated` writes them."""

from __future__ import annotations

import jfuse.frontends.sources  # noqa: F401  (registers the importer's handlers)
from jfuse.frontends.tensorflow.graph import HANDLERS
from jfuse.lowering.defaults import default_rules
from jfuse.tf_nodes.messages import message_class

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


def text() -> str:
    """All lines: what `jfuse/tf_nodes/op_defs.txtpb` holds."""
    return "\n".join(lines()) + "\n"
