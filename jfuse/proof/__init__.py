"""The prover: does a fused operator compute what the function that it replaces computes?"""
