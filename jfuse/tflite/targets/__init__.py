"""Targets of files: for each the operators that it runs, the work that falls to its CPU, and the features it lacks."""
