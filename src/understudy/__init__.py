"""Understudy: publish a generator instead of the data."""
