"""Layers of networks: convolutions, pools, norms, activations, quantization."""
