"""Ops that arrange elements."""
