"""Integer bodies: what the builtins compute on quantized integers, equal to LiteRT's kernels in every bit."""
