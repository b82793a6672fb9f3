"""How integers are rounded, scaled, added up and looked up: what the integer bodies share."""
