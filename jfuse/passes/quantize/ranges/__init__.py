"""Ranges of values that are known without what calibration saw, or beyond which nothing is told apart."""
