"""Splits scans: one scan for each recurrence; computations without a state run on all steps at once."""
