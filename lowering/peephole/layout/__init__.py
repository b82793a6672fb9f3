"""Peephole rules for data movement: transposes, reshapes, slices, broadcasts."""
