"""Spectra and speech."""
