"""All ops by name: the explicit list of kernel modules. A new module adds its line here.

Ops whose names are Python builtins carry a trailing underscore (`abs_`, `sum_`, `while_`).
"""

from jfuse.kernels.array.array import *
from jfuse.kernels.array.gather import *
from jfuse.kernels.array.pieces import *
from jfuse.kernels.array.slicing import *
from jfuse.kernels.control import *
from jfuse.kernels.fused.bidirectional import *
from jfuse.kernels.fused.lstm import *
from jfuse.kernels.fused.rnn import *
from jfuse.kernels.fused.svdf import *
from jfuse.kernels.image.blocks import *
from jfuse.kernels.image.detection import *
from jfuse.kernels.image.resize import *
from jfuse.kernels.linalg.matmul import *
from jfuse.kernels.math.elementwise import *
from jfuse.kernels.math.random import *
from jfuse.kernels.math.reduce import *
from jfuse.kernels.nn.activation import *
from jfuse.kernels.nn.conv import *
from jfuse.kernels.nn.norm import *
from jfuse.kernels.nn.pool import *
from jfuse.kernels.nn.quantize import *
from jfuse.kernels.signal.spectrum import *
from jfuse.kernels.text.lookup import *
