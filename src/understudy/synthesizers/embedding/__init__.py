"""Images: a generator fitted to a private mean embedding, and a private labeller."""
