"""What the values of a loop body are: linear forms, expressions, activations, weights."""
