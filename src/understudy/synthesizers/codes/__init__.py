"""Code sets: a mixture of rates fitted to noisy counts of codes and of pairs."""
