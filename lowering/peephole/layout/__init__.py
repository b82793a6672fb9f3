"""Peephole rules about what only moves elements: transposes, reshapes, slices, broadcasts."""
