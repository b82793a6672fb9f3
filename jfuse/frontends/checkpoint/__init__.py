"""Checkpoints of TensorFlow, read without it: the index, checksums, and tensors as views of the mapped files."""
