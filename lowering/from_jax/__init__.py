"""Rules for the primitives of jax, in the form of those for TensorFlow's ops, and built from them where possible.

A rule takes the operands by position, and those parameters of the equation that it names as keywords. Operands of
unequal ranks are a scalar and an array; axes of size 1 broadcast, as in the jaxpr.
"""
