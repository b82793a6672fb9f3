"""Reading a .tflite file as a program: one operator, one equation."""
