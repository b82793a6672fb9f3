"""Scans taken apart: one recurrence each, what carries nothing on all steps at once."""
