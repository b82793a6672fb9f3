"""The rows of the table by family of builtins, as kernels/ has them."""
