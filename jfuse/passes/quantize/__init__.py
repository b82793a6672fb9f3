"""Quantization: a recipe and ranges become types, and QUANTIZE and DEQUANTIZE where those of neighbours differ."""
