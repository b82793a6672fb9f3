"""Where a quantized file loses precision: each of its equations beside the float model's, on the same inputs."""
