"""Fusion: recurrences and activations are recovered, and composites become fused operators, each proven."""
