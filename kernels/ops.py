"""All ops by name: the explicit list of kernel modules. A new module adds its line here.

Ops whose names are Python builtins carry a trailing underscore (`abs_`, `sum_`, `while_`).
"""

from jfuse.kernels.activation import *
from jfuse.kernels.array import *
from jfuse.kernels.control import *
from jfuse.kernels.conv import *
from jfuse.kernels.elementwise import *
from jfuse.kernels.fused.bidirectional import *
from jfuse.kernels.fused.lstm import *
from jfuse.kernels.fused.rnn import *
from jfuse.kernels.fused.svdf import *
from jfuse.kernels.gather import *
from jfuse.kernels.matmul import *
from jfuse.kernels.reduce import *
from jfuse.kernels.shapes import *
from jfuse.kernels.slicing import *
