"""Masked and padded steps."""
