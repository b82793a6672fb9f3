"""Straight-line code that repeats a step becomes a scan."""
