"""TensorFlow graphs: the walk that lowers them, their functions, control flow, variables, lists and tables."""
