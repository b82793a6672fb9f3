"""Locating a difference: the first equation that errs by itself, and the smallest input that shows it."""
