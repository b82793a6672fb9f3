"""What makes a Python function an op: its signature, types, values and record."""
