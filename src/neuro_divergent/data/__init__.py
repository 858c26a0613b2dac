"""The data path: from anybody's table to batches of windows."""
