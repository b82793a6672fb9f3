"""Ranges that are known without calibration, and ranges beyond which consumers distinguish nothing."""
