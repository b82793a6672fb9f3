"""Tools of rules: queries about operands (rank, dtype, producer), and builders of shapes and open sizes."""
