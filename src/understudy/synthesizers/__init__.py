"""Synthesizers: what turns noisy sums into a generator, one folder each."""
