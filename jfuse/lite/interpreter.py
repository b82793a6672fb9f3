"""`Interpreter`: the official interpreter's methods, over LiteRT's own or over the XLA program of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from ai_edge_litert import interpreter as litert
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import JfuseError
from jfuse.base.option_values import LARGEST_SIZE, whole
from jfuse.lite.tensor_details import Details, FileTensors
from jfuse.model import Model, Stream
from jfuse.tflite.mapped_file import read_file
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.read.flatbuffer_reader import read_root


class Interpreter:
    """Runs a .tflite file with the methods of `tf.lite.Interpreter`.

    model_path: a file's path. model_content: its bytes. One of the two.
    engine: "litert" for LiteRT's own interpreter, with all its methods; "xla" for one XLA program on CPU or GPU. By
        default LiteRT, whose calls take less time; XLA on a GPU, and for operators that LiteRT does not have.
    num_threads, kernels: about LiteRT's kernels; they change nothing on XLA.
    Inputs and outputs of the first subgraph go by index, as there, and signatures by key; values between operators are
    not kept by XLA. Variables and state tensors go on from call to call.
    """

    def __new__(
        cls,
        model_path: Any = None,
        model_content: Any = None,
        num_threads: int | None = None,
        *,
        engine: Literal["litert", "xla"] | None = None,
        **kernels: Any,
    ) -> Interpreter:
        """The interpreter of an engine; a subclass is one on XLA."""
        if engine not in (None, "litert", "xla"):
            raise ValueError(f"engine is 'litert', 'xla' or None, not {engine!r}.")
        own = cls is Interpreter and engine != "xla"
        if own and (engine == "litert" or _is_for_litert(model_path, model_content)):
            return object.__new__(_OnLiteRt)
        return object.__new__(cls)

    def __init__(
        self,
        model_path: Any = None,
        model_content: Any = None,
        num_threads: int | None = None,
        *,
        engine: Literal["litert", "xla"] | None = None,
        **kernels: Any,
    ) -> None:
        unknown = [name for name in kernels if name not in _LITERT]
        if unknown:
            raise TypeError(f"Interpreter() got an unexpected keyword argument {unknown[0]!r}")
        if (model_path is None) == (model_content is None):
            raise ValueError("`model_path` or `model_content` must be specified, one of the two.")
        if model_path is not None and not Path(model_path).is_file():
            raise ValueError(f"Could not open '{model_path}'.")
        if model_content is not None and not isinstance(model_content, bytes | bytearray | memoryview):
            raise ValueError(f"`model_content` takes the bytes of a file, not a {type(model_content).__name__}.")
        content = bytes(read_file(Path(model_path))[0]) if model_content is None else bytes(model_content)
        try:
            self._model = Model(load_tflite(content if model_path is None else Path(model_path)))
        except JfuseError as error:
            raise ValueError(str(error)) from error
        self._file = FileTensors(content)
        self._stream = self._model.stream()
        graph = self._model.program.in_file_order()[0]
        self._main = next((s for s in self._model.program.signatures if s.graph is graph), None)
        self._shapes = {i: self._file.details(0, i)["shape"] for i in self._file.inputs(0)}
        self._inputs: dict[int, np.ndarray] = {}
        self._outputs: dict[int, np.ndarray] = {}

    def allocate_tensors(self) -> None:
        """Make the inputs' arrays, of zeros, in the present sizes; state tensors start anew."""
        for index, shape in self._shapes.items():
            dtype = self._model_dtype(index)
            if index not in self._inputs or self._inputs[index].shape != tuple(shape):
                self._inputs[index] = np.zeros(tuple(shape), dtype)
        fresh = self._model.stream().states
        tensors = {s.name for s in self._model.program.states() if s.home == "tensor"}
        self._stream.states = {k: fresh[k] if k in tensors else v for k, v in self._stream.states.items()}

    def get_input_details(self) -> list[Details]:
        """The inputs of the first subgraph: name, index, shape, shape_signature, dtype, quantization."""
        return [self._file.details(0, i, self._shapes[i]) for i in self._file.inputs(0)]

    def get_output_details(self) -> list[Details]:
        """The outputs of the first subgraph, in the sizes of the last call."""
        return [self._file.details(0, i, self._output_shape(i)) for i in self._file.outputs(0)]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[Details]:
        """All tensors of a subgraph, in the sizes that the file states."""
        number = _whole(subgraph_index)
        return [self._file.details(number, i) for i in range(self._file.count(number))]

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Give an input other sizes; `allocate_tensors` comes next.

        strict: only where `shape_signature` has -1. Raises ValueError for another rank, and where strict forbids it.
        """
        self._check_input(input_index)
        details = self._file.details(0, input_index)
        signature = details["shape_signature"]
        tensor_size = [_whole(size) for size in tensor_size]
        if strict and any(size not in (-1, new) for size, new in zip(signature, tensor_size, strict=True)):
            raise ValueError(
                f"ResizeInputTensorStrict only allows mutating unknown dimensions identified by -1; the shape of "
                f"{details['name']} is {signature.tolist()}, not {list(tensor_size)}."
            )
        self._shapes[input_index] = np.array(tensor_size, np.int32)
        self._inputs.pop(input_index, None)

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy an array into an input. Raises ValueError for another dtype or shape."""
        self._check_input(tensor_index)
        held = self._allocated(tensor_index)
        details = self._file.details(0, tensor_index)
        array = _of_its_type(value, details)
        if array.shape != held.shape:
            raise ValueError(
                f"Cannot set tensor: Dimension mismatch. Got {list(array.shape)} but expected {list(held.shape)} for "
                f"input {tensor_index}, name: {details['name']}."
            )
        self._inputs[tensor_index] = array.astype(held.dtype)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> np.ndarray:
        """A copy of an input or, after `invoke`, of an output. Raises ValueError for any other tensor."""
        return self.tensor(tensor_index)().copy()

    def tensor(self, tensor_index: int) -> Callable[[], np.ndarray]:
        """A function that gives the present array of an input (to be written to) or of an output."""
        tensor_index = _whole(tensor_index)

        def present() -> np.ndarray:
            if tensor_index in self._outputs:
                return self._outputs[tensor_index]
            if tensor_index in self._shapes:
                return self._allocated(tensor_index)
            why = "invoke() comes first" if tensor_index in self._file.outputs(0) else "it is no input and no output"
            raise ValueError(f"Tensor {tensor_index} has no data: {why}.")

        return present

    def invoke(self) -> None:
        """Compute the outputs of the first subgraph from its inputs. Raises RuntimeError before `allocate_tensors`."""
        if self._main is None:
            raise RuntimeError("no signature names the first subgraph; get_signature_runner() runs the others")
        missing = [i for i in self._shapes if i not in self._inputs]
        if missing:
            raise RuntimeError("Invoke called on model that is not ready: call allocate_tensors() first.")
        arrays = dict(zip(self._main.input_names, (self._inputs[i] for i in self._file.inputs(0)), strict=True))
        results = self._stream.run(arrays, self._main.key)
        places = self._file.outputs(0)
        self._outputs = {i: np.array(results[n]) for i, n in zip(places, self._main.output_names, strict=True)}

    def reset_all_variables(self) -> None:
        """Go back to the first values of variables and state tensors."""
        self._stream.reset()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """The names of each signature's inputs and outputs: {"serving_default": {"inputs": […], "outputs": […]}}."""
        return self._file.signature_list()

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A callable that runs one signature; without a key the only one. Raises ValueError where that does not fit."""
        known = list(self.get_signature_list())
        if signature_key is None:
            if len(known) != 1:
                raise ValueError(
                    f"SignatureDef signature_key is None and model has {len(known)} Signatures. None is only allowed "
                    "when the model has 1 SignatureDef"
                )
            signature_key = known[0]
        if signature_key not in known:
            raise ValueError(f"Invalid signature_key provided: '{signature_key}'. Known are {known}.")
        return SignatureRunner(self._model, self._stream, self._file, signature_key)

    def _allocated(self, index: int) -> np.ndarray:
        if index not in self._inputs:
            raise ValueError(f"Tensor {index} has no data: run allocate_tensors() first.")
        return self._inputs[index]

    def _check_input(self, index: int) -> None:
        if _whole(index) not in self._shapes:
            raise ValueError(f"Tensor {index} is no input; the inputs are {sorted(self._shapes)}.")

    def _output_shape(self, index: int) -> tuple[int, ...] | None:
        return self._outputs[index].shape if index in self._outputs else None

    def _model_dtype(self, index: int) -> Any:
        dtype = self._file.details(0, index)["dtype"]
        return object if dtype is np.bytes_ else dtype


def _of_its_type(value: Any, details: Details) -> np.ndarray:
    """An array for an input. Raises ValueError for another dtype, as LiteRT does: nothing is cast, or quantized."""
    array = np.asarray(value)
    wanted = details["dtype"]
    if wanted is not np.bytes_ and array.dtype != np.dtype(wanted):
        raise ValueError(
            f"Cannot set tensor: Got value of type {array.dtype.name.upper()} but expected type "
            f"{np.dtype(wanted).name.upper()} for input {details['index']}, name: {details['name']} "
        )
    return array


def _whole(number: Any) -> int:
    """A size or index; ValueError otherwise, as the official interpreter raises."""
    try:
        return whole("a size or index", number, most=LARGEST_SIZE)
    except JfuseError as error:
        raise ValueError(str(error)) from error


class _OnLiteRt(litert.Interpreter, Interpreter):  # type: ignore[misc]  # LiteRT's class has no types
    """LiteRT's interpreter, whose methods come first; nothing stands between it and the caller."""

    def __init__(self, *args: Any, engine: object = None, **named: Any) -> None:
        kernels = named.get("experimental_op_resolver_type")
        if kernels is not None:  # TensorFlow has an enum of its own
            named["experimental_op_resolver_type"] = litert.OpResolverType(kernels.value)
        litert.Interpreter.__init__(self, *args, **named)


def _is_for_litert(model_path: Any, model_content: Any) -> bool:
    """Whether LiteRT runs a file, and no GPU runs it faster. A wrong argument is for LiteRT to refuse."""
    try:
        data = read_file(Path(model_path))[0] if model_content is None else model_content
        model = read_root(data, schema.Model)
    except (JfuseError, OSError, TypeError, ValueError):
        return False
    has_custom = any(code.customCode for code in model.operatorCodes or ())
    return not has_custom and jax.default_backend() == "cpu"


_LITERT = frozenset(
    {
        "experimental_delegates",
        "experimental_op_resolver_type",
        "experimental_preserve_all_tensors",
        "experimental_disable_delegate_clustering",
        "experimental_default_delegate_latest_features",
    }
)


class SignatureRunner:
    """Runs one signature on arrays by input name, in any sizes that the file takes; the results by output name."""

    def __init__(self, model: Model, stream: Stream, file: FileTensors, key: str) -> None:
        self._model = model
        self._signature = model.signature(key)
        self._stream = stream
        self._file = file

    def __call__(self, **inputs: Any) -> dict[str, np.ndarray]:
        names = self._signature.input_names
        if len(inputs) != len(names):
            raise ValueError(
                f"Invalid number of inputs provided for running a SignatureDef, expected {len(names)} vs provided "
                f"{len(inputs)}"
            )
        for name in inputs:
            if name not in names:
                raise ValueError(f"Invalid Input name ({name}) for SignatureDef")
        details = self._details("inputs")
        arrays = {name: _of_its_type(value, details[name]) for name, value in inputs.items()}
        bound = self._model.bind(self._signature.key, (), arrays)
        return self._stream.run(bound, self._signature.key)

    def get_input_details(self) -> Mapping[str, Details]:
        """The inputs by name, as `Interpreter.get_input_details` describes each."""
        return self._details("inputs")

    def get_output_details(self) -> Mapping[str, Details]:
        """The outputs by name, as `Interpreter.get_output_details` describes each."""
        return self._details("outputs")

    def _details(self, side: str) -> dict[str, Details]:
        key = self._signature.key
        subgraph = self._file.subgraph_of(key)
        return {name: self._file.details(subgraph, i) for name, i in sorted(self._file.names(key, side).items())}
