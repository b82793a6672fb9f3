"""The machinery of ops: a decorated Python function computes on arrays, infers types and records equations."""
