"""Peephole rules that make one operator of several: convolutions, attention, bidirectional layers."""
