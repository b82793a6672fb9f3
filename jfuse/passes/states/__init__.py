"""States: what lasts from one call to the next, and where the file keeps it."""
