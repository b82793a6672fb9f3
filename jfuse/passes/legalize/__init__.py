"""Legalization: spells operators without a kernel in operators that the runtime has kernels for."""
