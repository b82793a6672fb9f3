"""Quantized files against float models: separates rounding from errors."""
