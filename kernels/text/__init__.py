"""Lookup tables and hashes."""
