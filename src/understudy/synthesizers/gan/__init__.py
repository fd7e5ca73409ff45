"""The five papers' systems: a generator against a critic that sees private records through noisy gradients."""
