"""What quantization is told: the recipe, the data to calibrate with, and the statistics that come of it."""
