"""Measurements that a reader can repeat: ratios in one run, never bare times."""
