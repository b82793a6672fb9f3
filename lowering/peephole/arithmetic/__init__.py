"""Peephole rules about scales, shifts, activations and constants."""
