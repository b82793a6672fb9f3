"""The prover that does not sample: both graphs as normal forms over the real numbers."""
