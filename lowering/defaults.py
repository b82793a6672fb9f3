"""The modules that fill the default rule set, each once."""

from __future__ import annotations

import jfuse.lowering.from_jax.rules
import jfuse.lowering.from_torch.rules  # noqa: F401
from jfuse.lowering.composites import embedding, keras, l2_pool, lingvo, recurrent  # noqa: F401
from jfuse.lowering.ops.array import (  # noqa: F401
    array,
    lists,
    ragged,
    scatter,
    sequence,
    slicing,
    sort,
    sparse,
)
from jfuse.lowering.ops.image import (  # noqa: F401
    blocks,
    colour,
    detection,
    drawing,
    patches,
    projection,
    resize,
)
from jfuse.lowering.ops.linalg import (  # noqa: F401
    elimination,
    matmul,
    matrix,
)
from jfuse.lowering.ops.math import (  # noqa: F401
    bits,
    complex_numbers,
    division,
    elementwise,
    fake_quant,
    histogram,
    quantile,
    random,
    reduce,
    segment,
    special,
    trigonometry,
)
from jfuse.lowering.ops.nn import (  # noqa: F401
    activation,
    block_cells,
    conv,
    gradients,
    norm,
    pool,
    transpose_conv,
)
from jfuse.lowering.ops.signal import (  # noqa: F401
    ctc,
    signal,
)
from jfuse.lowering.ops.text import (  # noqa: F401
    table,
)
from jfuse.lowering.recover.cells import lstm, rnn, svdf, unfused  # noqa: F401
from jfuse.lowering.rules import DEFAULT, RuleSet


def default_rules() -> RuleSet:
    """jfuse's own rules, and what the user has registered by decorator."""
    return DEFAULT
