"""Quantized files beside models in floats: what rounding explains of a difference, and what is a fault."""
