"""The symbolic prover: brings both graphs to normal forms over the real numbers, without samples."""
