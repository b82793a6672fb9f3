"""Runners: who computes a side of a comparison, in XLA, LiteRT, TensorFlow or JAX."""
