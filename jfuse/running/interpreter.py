"""Independent runners to compare with: the LiteRT interpreter on the exported bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from jfuse.errors import VerifyFailed

_IS_EMPTY = "Invalid tensor size"  # how Python's interpreter refuses to read an output that has no elements


class LiteRt:
    """The LiteRT interpreter on one file. It lives as long as this object, so what a file keeps between calls is kept.

    delegates: False runs every operator on its builtin kernel, without XNNPACK.
    """

    def __init__(self, model: bytes, *, delegates: bool = True, threads: int = 1) -> None:
        self._model = model
        try:
            self._interpreter = Interpreter(
                model_content=model,
                num_threads=threads,
                experimental_op_resolver_type=OpResolverType.AUTO
                if delegates
                else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
        except (ValueError, RuntimeError) as error:
            raise VerifyFailed("LiteRT does not load the file", found=_reason(error)) from error

    def signatures(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """The names of the inputs and of the outputs of each signature, by its key."""
        listed = self._interpreter.get_signature_list()
        return {key: (tuple(names["inputs"]), tuple(names["outputs"])) for key, names in listed.items()}

    def run(self, key: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of one invoke by name; inputs may have another size on each call."""
        try:
            runner = self._interpreter.get_signature_runner(key)
            outputs = runner(**{name: np.asarray(value) for name, value in inputs.items()})
        except (ValueError, RuntimeError) as error:
            if str(error).startswith(_IS_EMPTY):
                return dict(self._outputs(key))
            raise VerifyFailed(
                f"LiteRT does not run the signature {key!r}",
                found=_reason(error),
                remedy="report this model; for sizes or types that a kernel does not take, change them in the source",
            ) from error
        return {name: np.array(value) for name, value in outputs.items()}

    def _outputs(self, key: str) -> Iterator[tuple[str, np.ndarray]]:
        """The outputs of the last invoke, without reading those that have no elements."""
        subgraph = self._subgraph(key)
        for name, output in self._interpreter.get_signature_runner(key).get_output_details().items():
            if 0 in output["shape"]:
                yield name, np.zeros(output["shape"], output["dtype"])
            else:
                yield name, np.array(self._interpreter.get_tensor(output["index"], subgraph))

    def _subgraph(self, key: str) -> int:
        model = schema.Model.GetRootAs(self._model, 0)
        tables = (model.SignatureDefs(i) for i in range(model.SignatureDefsLength()))
        return int(next(t.SubgraphIndex() for t in tables if t.SignatureKey() == key.encode()))


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())
