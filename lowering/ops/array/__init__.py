"""Layout: reshape, slice, gather, scatter, sort, lists and shapes."""
