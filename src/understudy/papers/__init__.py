"""The five papers: what they claimed, what it costs when done right, and their tables made again."""
