"""Matrix products, einsum, diagonals, and small inverses."""
