"""GANs: networks from a recipe's values, and the one loop that trains every recipe."""
