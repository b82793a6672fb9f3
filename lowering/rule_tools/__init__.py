"""What rules ask about operands and build with: ranks, dtypes, producers, open sizes, refusals."""
