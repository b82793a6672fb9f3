"""Reads the values of a loop body backwards: as linear forms, expressions, activations and weights."""
