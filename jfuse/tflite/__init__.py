"""The .tflite format: schema, fields, reading, writing, and the limits of runtimes."""
