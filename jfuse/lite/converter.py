"""`TFLiteConverter`: the official class's constructors, attributes, results and errors, with jfuse behind them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Self

from jfuse.api.convert import convert
from jfuse.api.load import load
from jfuse.base.errors import JfuseError
from jfuse.base.options import given
from jfuse.frontends.selection import Inputs
from jfuse.ir.graph import Const, Program
from jfuse.ir.walk import all_eqns
from jfuse.lite.conversion_metadata import NAME, Conversion, SourceKind
from jfuse.lite.errors import converter_error
from jfuse.lite.infinities import without_infinities
from jfuse.lite.quantization_mode import QuantizationMode
from jfuse.lite.seen_ranges import with_seen_ranges
from jfuse.lite.settings import Settings
from jfuse.lite.sources import ConverterSource, function_source, jax_source, keras_source, saved_model_source
from jfuse.lite.spec import text_of
from jfuse.model import Model
from jfuse.passes.options import Pipeline
from jfuse.records.conversion import Report
from jfuse.tflite.write.file import to_bytes
from jfuse.verification.options import Verify

_ONLY_BEHIND = 0
"""Bytes of data from which on it lies behind the flatbuffer, for `_experimental_use_buffer_offset`."""


class TFLiteConverter(Settings):
    """Converts a SavedModel, a Keras model or concrete functions to the bytes of a .tflite file.

    A script changes its import and nothing else: `from jfuse import lite as tflite`, or
    `jfuse.TFLiteConverter.from_keras_model(model).convert()`. Attributes mean what they mean in `tf.lite`; values of
    TensorFlow's enums and dtypes are taken. The whole model is compared with TensorFlow only if asked
    (`convert(verify=True)`), as the official converter compares nothing; fusions are always tested.
    report: fusions and refusals, after `convert`; None before.
    """

    _source: ConverterSource
    report: Report | None

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls._takes_any = True  # attributes of its own

    def __init__(self, funcs: Sequence[Any], trackable_obj: Any = None) -> None:
        """Converts concrete functions; `trackable_obj` is the object that holds their variables.

        Raises ValueError for other functions.
        """
        self._begin(function_source(list(funcs), trackable_obj))

    @classmethod
    def from_concrete_functions(cls, funcs: Sequence[Any], trackable_obj: Any = None) -> Self:
        """A converter of concrete functions; several need `trackable_obj`, and each becomes a signature of its name.

        Raises ValueError for other functions.
        """
        return cls(funcs, trackable_obj)

    @classmethod
    def from_saved_model(
        cls, saved_model_dir: Any, signature_keys: Sequence[str] | None = None, tags: Collection[str] | None = None
    ) -> Self:
        """A converter of a SavedModel folder.

        signature_keys: the signatures to convert; None for all. tags: those of the graph to take, {"serve"} by default.
        Raises OSError for a folder that is no SavedModel, ValueError for unknown keys or tags.
        """
        return cls._of(saved_model_source(saved_model_dir, signature_keys, tags))

    @classmethod
    def from_keras_model(cls, model: Any) -> Self:
        """A converter of a Keras 3 or tf_keras model. Raises ValueError for anything else."""
        return cls._of(keras_source(model))

    @classmethod
    def experimental_from_jax(cls, serving_funcs: Sequence[Any], inputs: Sequence[Sequence[tuple[str, Any]]]) -> Self:
        """A converter of one function of jax arrays, `[function]`, for `[[(name, array), ...]]`, an array per argument.

        An array may be a `jax.ShapeDtypeStruct` with symbolic sizes, which stay open. The file has no signature, as
        the official converter's; its input tensors have the names. Raises ValueError for anything else.
        """
        return cls._of(jax_source(serving_funcs, inputs))

    @classmethod
    def _of(cls, source: ConverterSource) -> Self:
        converter = cls.__new__(cls)  # the constructor takes functions
        converter._begin(source)
        return converter

    def _begin(self, source: ConverterSource) -> None:
        super().__init__()
        for name, value in {"_source": source, "report": None}.items():
            object.__setattr__(self, name, value)

    def convert(
        self,
        *,
        verify: bool | Verify = False,
        rules: Iterable[Any] | None = None,
        pipeline: Pipeline | None = None,
        unsafe: bool = False,
        **options: Any,
    ) -> bytes:
        """The .tflite file's bytes. May be called again after attributes have changed.

        verify, rules, pipeline, unsafe, and what `jfuse.convert` takes besides (state, forms, target, …): as there.
        Raises ConverterError where the model does not convert, ValueError where the attributes contradict each other.
        """
        return self._bytes(
            QuantizationMode.of(self), verify, given(Pipeline, "pipeline", pipeline, rules=rules), unsafe, options
        )

    def convert_floats(self) -> bytes:
        """The file that `convert` makes without optimizations."""
        return self._bytes(QuantizationMode(None), False, Pipeline(), False, {})

    def convert_leaving_float(self, ops: Iterable[str], nodes: Iterable[str], *, fully_quantize: bool = False) -> bytes:
        """The file that `convert` makes, where some builtins, and some nodes by name, stay float.

        fully_quantize: inputs and outputs are int8. For `experimental.QuantizationDebugger`.
        """
        mode = replace(QuantizationMode.of(self), float_ops=tuple(ops), float_nodes=tuple(nodes))
        mode = replace(mode, inputs="int8", outputs="int8") if fully_quantize else mode
        return self._bytes(mode, False, Pipeline(), False, {})

    def _bytes(
        self, mode: QuantizationMode, verify: bool | Verify, own: Pipeline, unsafe: bool, options: Mapping[str, Any]
    ) -> bytes:
        try:
            self._check_modes(mode)
            lite = self._converted(mode, own, unsafe, verify=verify, **options)
            data = self._file(lite, mode.found(lite.report))
        except JfuseError as error:
            raise converter_error(error) from error
        lite.report.size_bytes = len(data)
        self.report = lite.report
        return data

    def _converted(self, mode: QuantizationMode, own: Pipeline, unsafe: bool, **options: Any) -> Model:
        source = self._source
        inputs = Inputs(source.specs, signatures=source.signatures, unsafe=unsafe)
        if self.allow_custom_ops:
            unruled = _without_rule(load(source.loads, inputs, pipeline=own).program)
            own = replace(own, custom_ops=dict.fromkeys(unruled, True))
        own = replace(own, select_tf_ops=self._selects_tf_ops())
        data = mode.data if mode.recipe else None
        return convert(source.loads, inputs, pipeline=own, quantize=mode.rules(), calibration=data, **options)

    def _check_modes(self, mode: QuantizationMode) -> None:
        """Raise the official errors about modes of quantization that do not exist, or not together."""
        if self._experimental_variable_quantization and mode.recipe not in ("int8", "int16x8", "trained"):
            raise ValueError("`_experimental_variable_quantization` is only supported for full integer quantization.")
        if self._experimental_qdq_conversion_mode not in (None, "NONE", "STATIC", "DYNAMIC"):
            raise JfuseError(f"Unknown QDQ conversion mode: {self._experimental_qdq_conversion_mode}")

    def _selects_tf_ops(self) -> bool:
        ops = {text_of(ops) for ops in self.target_spec.supported_ops}
        return "SELECT_TF_OPS" in ops or self._experimental_allow_all_select_tf_ops

    def _file(self, lite: Model, mode: QuantizationMode) -> bytes:
        source = self._source
        program = source.arranged(lite.program)
        if mode.data is not None and mode.recipe is None:
            program = with_seen_ranges(program, mode.data)
        if self.canonicalizing_inf_as_min_max_float:
            program = without_infinities(program)
        names = source.tensor_names(program)
        if not self.exclude_conversion_metadata:
            entry = Conversion(
                source.kind,
                _version(source.kind),
                mode.recipe,
                bool(self.allow_custom_ops),
                self._selects_tf_ops(),
                {text_of(ops) for ops in self.target_spec.supported_ops} == {"SELECT_TF_OPS"},
            )
            facts = replace(program.facts, metadata=(*program.facts.metadata, (NAME, Const(entry.to_bytes()))))
            program = replace(program, facts=facts)
        if not source.has_signatures:
            program = _without_signatures(program)
            names = {"": next(iter(names.values()))}
        limit = {"most_inside": _ONLY_BEHIND} if self._experimental_use_buffer_offset else {}
        return to_bytes(program, tensor_names=names, **limit)


def _version(kind: SourceKind) -> str:
    """The version of the installed TensorFlow, or jax, which the source was made with."""
    return version("jax" if kind is SourceKind.JAX else "tensorflow")


def _without_rule(program: Program) -> list[str]:
    """The TensorFlow ops of the program that no rule took."""
    graphs = program.graphs()
    return sorted({e.op.tf_name for graph in graphs for e in all_eqns(graph) if e.op.tf_name is not None})


def _without_signatures(program: Program) -> Program:
    bare = tuple(replace(s, key="") for s in program.signatures)
    return replace(program, signatures=(), facts=replace(program.facts, uncalled=bare))
