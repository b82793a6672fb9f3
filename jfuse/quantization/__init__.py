"""The inputs of quantization: recipes, calibration data, and the statistics that calibration gives."""
