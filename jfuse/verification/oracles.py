"""Independent runners to compare with: the LiteRT interpreter on the exported bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from jfuse.errors import VerifyFailed

_BUILTINS = schema.BuiltinOperator
_ON_RESOURCES = {_BUILTINS.CALL_ONCE, _BUILTINS.VAR_HANDLE, _BUILTINS.READ_VARIABLE, _BUILTINS.ASSIGN_VARIABLE}
_ON_RESOURCES |= {_BUILTINS.HASHTABLE, _BUILTINS.HASHTABLE_IMPORT}

_IS_EMPTY = "Invalid tensor size"  # how Python's interpreter refuses to read an output that has no elements


class LiteRt:
    """The LiteRT interpreter on one file. It lives as long as this object, so what a file keeps between calls is kept.

    delegates: False runs every operator on its builtin kernel, without XNNPACK.
    preserve_all: keep every operator's result, for `operator_results`; delegates then stay out.
    """

    def __init__(self, model: bytes, *, delegates: bool = True, threads: int = 1, preserve_all: bool = False) -> None:
        plain = preserve_all or not delegates
        self._model = model
        try:
            self._interpreter = Interpreter(
                model_content=model,
                num_threads=threads,
                experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
                if plain
                else OpResolverType.AUTO,
                experimental_preserve_all_tensors=preserve_all,
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

    def operator_results(self, key: str, inputs: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, ...]]:
        """The outputs of each operator of a signature's subgraph after one invoke, in order; needs `preserve_all`.

        Without operators on variables and tables as such, which stand for no equation; without those that live in a
        state's tensor, and without results that are left unallocated (no elements).
        """
        self.run(key, inputs)
        index, model = self._subgraph(key), schema.Model.GetRootAs(self._model, 0)
        subgraph = model.Subgraphs(index)
        operators = (subgraph.Operators(i) for i in range(subgraph.OperatorsLength()))
        codes = [model.OperatorCodes(i).BuiltinCode() for i in range(model.OperatorCodesLength())]
        computing = (op for op in operators if codes[op.OpcodeIndex()] not in _ON_RESOURCES)
        return [tuple(self._readable(op.OutputsAsNumpy(), index)) for op in computing]

    def _subgraph(self, key: str) -> int:
        model = schema.Model.GetRootAs(self._model, 0)
        tables = (model.SignatureDefs(i) for i in range(model.SignatureDefsLength()))
        return int(next(t.SubgraphIndex() for t in tables if t.SignatureKey() == key.encode()))

    def _readable(self, tensors: np.ndarray, subgraph: int) -> Iterator[np.ndarray]:
        for tensor in tensors:
            try:
                yield np.array(self._interpreter.get_tensor(int(tensor), subgraph))
            except ValueError:
                return


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())
