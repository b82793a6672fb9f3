"""Legalization: what the runtime has no kernel for, spelled in what it has kernels for."""
