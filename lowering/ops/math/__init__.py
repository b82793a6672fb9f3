"""Arithmetic, comparisons, bits, reductions, special functions, random numbers."""
