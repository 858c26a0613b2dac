"""What changes while a training runs: weights, history, patience, precision."""
