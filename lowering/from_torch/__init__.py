"""Rules for PyTorch's operators, in the form of those for TensorFlow's ops, and built from them where possible.

A rule takes the arguments of an operator as its schema in ATen has them: positional ones by position, with the defaults
that the schema has, keyword-only ones as keywords. Tensors are Vars or arrays, sizes ints or dimensions, dtypes DTypes.
"""
