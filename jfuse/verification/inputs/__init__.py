"""Inputs of a comparison: edges, padded rows, vocabularies, or the user's own."""
