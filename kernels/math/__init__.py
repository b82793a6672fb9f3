"""Elementwise ops, bits, reductions, segments, random numbers."""
