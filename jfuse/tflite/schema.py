"""The schema's tables by name: builtin codes, tensor types, option tables and enum options, both ways.

Exporter and importer meet the generated schema module here; elsewhere ops, options and dtypes have jfuse's names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ai_edge_litert import schema_py_generated as generated

from jfuse.base.errors import JfuseError
from jfuse.ir.types import TENSOR_TYPES, DType


def members(enum: type) -> dict[str, int]:
    """The names and numbers of one of the schema's enums."""
    return {name: value for name, value in vars(enum).items() if isinstance(value, int) and name[0] != "_"}


BUILTIN_CODES: Mapping[str, int] = members(generated.BuiltinOperator)
BUILTIN_NAMES: Mapping[int, str] = {code: name for name, code in BUILTIN_CODES.items()}

_CUSTOM = "CUSTOM "


def custom_code(name: str) -> str:
    """The name of a custom operator among builtins' names."""
    return _CUSTOM + name


VARIABLES = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")
"""The operators of states that a file keeps in variables."""


def is_custom(builtin: str) -> bool:
    """Whether the name is a custom operator's, as `custom_code` makes it."""
    return builtin.startswith(_CUSTOM)


def custom_name(builtin: str) -> str | None:
    """The name of a custom operator; None for a builtin."""
    return builtin.removeprefix(_CUSTOM) if is_custom(builtin) else None


QUANTIZED_IN_BLOCKS: int = generated.QuantizationDetails.BlockwiseQuantization
SPARSE_FORMATS: Mapping[int, str] = {code: name for name, code in members(generated.DimensionType).items()}


# Enum options by the field that holds them: a field of one name has one enum in all tables.
ENUM_FIELDS: Mapping[str, Mapping[str, int]] = {
    "fusedActivationFunction": members(generated.ActivationFunctionType),
    "padding": members(generated.Padding),
    "mode": members(generated.MirrorPadMode),
    "weightsFormat": members(generated.FullyConnectedOptionsWeightsFormat),
    "kernelType": members(generated.LSTMKernelType),
    "combiner": members(generated.CombinerType),
    "type": members(generated.LSHProjectionType),
    "reduceFunction": members(generated.ReduceWindowFunction),
}
DTYPE_FIELDS = frozenset(
    {"outType", "idxOutType", "inDataType", "outDataType", "outputType", "quantizedBiasType", "keyDtype", "valueDtype"}
)

# Builtins whose option table is not named after them.
_TABLE_EXCEPTIONS: Mapping[str, str] = {
    "AVERAGE_POOL_2D": "Pool2D",
    "MAX_POOL_2D": "Pool2D",
    "L2_POOL_2D": "Pool2D",
    "L2_NORMALIZATION": "L2Norm",
    "MAXIMUM": "MaximumMinimum",
    "MINIMUM": "MaximumMinimum",
    "MEAN": "Reducer",
    "SUM": "Reducer",
    "REDUCE_PROD": "Reducer",
    "REDUCE_MAX": "Reducer",
    "REDUCE_MIN": "Reducer",
    "REDUCE_ANY": "Reducer",
    "REDUCE_ALL": "Reducer",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNN",
    "CONV_3D_TRANSPOSE": "Conv3D",
    "RANDOM_STANDARD_NORMAL": "Random",
    "RANDOM_UNIFORM": "Random",
    "MULTINOMIAL": "Random",
}


def _table_name(builtin: str) -> str:
    return (_TABLE_EXCEPTIONS.get(builtin, builtin) + "Options").replace("_", "").lower()


def _unions() -> dict[str, tuple[int, int, str]]:
    """Lower-case table name -> (1 or 2 for the union, its number there, the table's name)."""
    unions = {}
    for union, enum in ((1, generated.BuiltinOptions), (2, generated.BuiltinOptions2)):
        unions.update({name.lower(): (union, code, name) for name, code in members(enum).items() if code})
    return unions


_UNIONS = _unions()


def new_options(builtin: str) -> tuple[int, int, Any]:
    """An option table with the schema's defaults: (union 1 or 2, number in the union, table or None)."""
    union, code, name = _UNIONS.get(_table_name(builtin), (1, 0, ""))
    return union, code, getattr(generated, f"{name}T")() if name else None


def subgraph_fields(table: Any) -> Sequence[str]:
    """The fields of an option table that name subgraphs: one index, or a vector of them."""
    return () if table is None else _subgraph_fields(type(table).__name__)


@cache
def _subgraph_fields(kind: str) -> tuple[str, ...]:
    return tuple(field for field in vars(getattr(generated, kind)()) if _NAMES_SUBGRAPHS.search(field))


_NAMES_SUBGRAPHS = re.compile(r"SubgraphInd(ex|ices)$|^subgraph$|^calledComputations$")


def option_fields(table: Any) -> dict[str, str]:
    """Option name without underscores -> field of the table. (`dilation_w_factor` is `dilationWFactor` there.)"""
    return {} if table is None else {field.lower(): field for field in vars(table)}


def encode_option(field: str, value: Any) -> Any:
    """An option's value as the table holds it."""
    if isinstance(value, DType):
        return TENSOR_TYPES[value]
    if isinstance(value, str) and field in ENUM_FIELDS:
        if value not in ENUM_FIELDS[field]:
            raise JfuseError(f"{value!r} is no {field}", expected=sorted(ENUM_FIELDS[field]))
        return ENUM_FIELDS[field][value]
    return value
