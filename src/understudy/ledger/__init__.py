"""The durable record of what was spent on a data set, and how a run pays."""
