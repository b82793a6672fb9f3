"""What runtimes do with each builtin: versions, element types, broadcasting, encodings, and gaps."""
