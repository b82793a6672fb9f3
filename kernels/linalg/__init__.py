"""Matrix products and diagonals."""
