"""What several synthesizers need."""
