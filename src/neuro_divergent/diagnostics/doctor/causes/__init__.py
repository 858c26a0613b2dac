"""The causes, one function each, grouped by the evidence that they read."""
