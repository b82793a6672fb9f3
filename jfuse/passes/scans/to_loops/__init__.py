"""Scans that nothing fused takes become the fastest loop that TFLite has."""
