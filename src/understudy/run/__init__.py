"""One run: pay, ask the door, train, checkpoint, release."""
