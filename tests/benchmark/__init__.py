"""Tests of measurements side by side."""
