"""Where a checkpoint keeps the variables of a SavedModel: both hold a graph of objects, matched by names from the root.

Source: tensorflow/core/protobuf/trackable_object_graph.proto; python/checkpoint/restore.py
"""

from __future__ import annotations

from collections import deque
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.frontends.checkpoint.tensor_bundle import NotUnderstood, TensorBundle
from jfuse.tf_nodes.messages import message_class

_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"


def variable_keys(bundle: TensorBundle, objects: Any) -> dict[int, str]:
    """The keys in the checkpoint of the variables of a SavedObjectGraph, by the number of the object.

    Raises ImportFailed for a damaged checkpoint.
    """
    try:
        (text,) = bundle.read(_GRAPH).reshape(-1)
        saved = message_class("TrackableObjectGraph").FromString(text)
    except (ImportFailed, NotUnderstood):
        raise
    except Exception as error:  # protobuf's parser raises errors of its own
        raise ImportFailed(
            f"the checkpoint {bundle.prefix} is damaged", where=repr(_GRAPH), found=str(error)
        ) from error
    numbers = {child.node_id for node in saved.nodes for child in node.children}
    if not saved.nodes or not all(0 <= number < len(saved.nodes) for number in numbers):
        raise ImportFailed(f"the checkpoint {bundle.prefix} is damaged", found="objects that refer to none")
    keys: dict[int, str] = {}
    pairs = {0: 0}  # objects of the SavedModel and of the checkpoint
    waiting = deque(pairs)
    while waiting:
        here = waiting.popleft()
        there = saved.nodes[pairs[here]]
        keys.update((here, a.checkpoint_key) for a in there.attributes if a.name == _VALUE)
        children = {c.local_name: c.node_id for c in there.children}
        for child in objects.nodes[here].children:
            earlier = children.get(child.local_name)
            if earlier is not None and child.node_id not in pairs:
                pairs[child.node_id] = earlier
                waiting.append(child.node_id)
    return keys
