"""The ground: errors, limits, settings and files, which every room may ask."""
