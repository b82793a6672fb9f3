"""What files are written for: each target is a table of operators, what falls to its CPU, and what it loses."""
