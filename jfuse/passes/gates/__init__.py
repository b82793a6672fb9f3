"""Gates: what must hold of a program before it becomes a file, and the errors where it does not."""
