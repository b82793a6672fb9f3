"""What libraries do with whole programs: what they cost, parts of them, several as one, other constants."""
