"""Facts of LiteRT about each builtin: versions, element types, broadcasting, encodings, and gaps."""
