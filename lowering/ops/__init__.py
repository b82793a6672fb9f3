"""How each TensorFlow op is spelled in TFLite ops, by family."""
