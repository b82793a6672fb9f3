"""Lookup tables of words and ids."""
