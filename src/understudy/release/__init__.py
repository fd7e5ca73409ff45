"""The folder that may be published: card, weights, and the records drawn from them."""
