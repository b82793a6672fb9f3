"""The public functions, each in a file of its name."""
