"""The .tflite format: its schema, what its fields hold, reading, writing, and what runtimes take of it."""
