"""Nodes of TensorFlow graphs: their attributes, and one node run or written by itself."""
