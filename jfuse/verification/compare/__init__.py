"""The comparison of two runs: matching names, tolerances, rounding, ties."""
