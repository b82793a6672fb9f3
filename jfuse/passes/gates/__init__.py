"""Gates: conditions on a program before it becomes a file, and the errors where they fail."""
