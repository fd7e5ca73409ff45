"""Tables: a mixture of products fitted to noisy counts of columns and of pairs."""
