"""Settings compared: sweeps, and the private choice of the best run."""
