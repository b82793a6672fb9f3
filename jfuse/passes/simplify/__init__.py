"""Simplification: dead code, shared values, constants and peephole rules, to a fixed point."""
