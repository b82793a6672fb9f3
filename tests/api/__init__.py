"""Tests of files that are made better by measurement."""
