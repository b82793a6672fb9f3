"""Ops on images and boxes."""
