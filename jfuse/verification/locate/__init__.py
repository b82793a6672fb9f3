"""Locates a difference: the first equation with an error of its own, and the smallest input that shows it."""
