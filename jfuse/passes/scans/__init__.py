"""Loops: while loops and unrolled steps become scans; those that do not fuse become the fastest loop."""
