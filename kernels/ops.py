"""All ops by name: the explicit list of kernel modules. A new module adds its line here.

Ops whose names are Python builtins carry a trailing underscore (`abs_`, `sum_`, `while_`).
"""

from jfuse.kernels.activation import *
from jfuse.kernels.array import *
from jfuse.kernels.bits import *
from jfuse.kernels.blocks import *
from jfuse.kernels.control import *
from jfuse.kernels.conv import *
from jfuse.kernels.conv3d import *
from jfuse.kernels.detection import *
from jfuse.kernels.elementwise import *
from jfuse.kernels.fake_quant import *
from jfuse.kernels.fused.bidirectional import *
from jfuse.kernels.fused.lstm import *
from jfuse.kernels.fused.rnn import *
from jfuse.kernels.fused.svdf import *
from jfuse.kernels.gather import *
from jfuse.kernels.image import *
from jfuse.kernels.lookup import *
from jfuse.kernels.matmul import *
from jfuse.kernels.matrix import *
from jfuse.kernels.norm import *
from jfuse.kernels.pool import *
from jfuse.kernels.quantize import *
from jfuse.kernels.random import *
from jfuse.kernels.reduce import *
from jfuse.kernels.reduce_window import *
from jfuse.kernels.segment import *
from jfuse.kernels.shapes import *
from jfuse.kernels.signal import *
from jfuse.kernels.slicing import *
from jfuse.kernels.sort import *
from jfuse.kernels.table import *
