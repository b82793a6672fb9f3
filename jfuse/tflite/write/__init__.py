"""Writing a program as a .tflite file: one equation, one operator."""
