"""Known public data sets by name."""
