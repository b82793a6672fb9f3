"""Ops that are no builtins of jfuse: TensorFlow ops, custom operators, and builtins kept as a file has them."""
