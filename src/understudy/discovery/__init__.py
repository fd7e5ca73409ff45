"""Facts that nobody knows, found out inside the budget: bounds of numbers and moments, and categories."""
