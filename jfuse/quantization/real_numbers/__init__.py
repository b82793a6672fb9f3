"""Quantized graphs in real numbers: one walker, and a policy for what becomes of values that the file rounds."""
