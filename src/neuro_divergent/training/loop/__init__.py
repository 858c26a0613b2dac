"""The loop over steps and epochs."""
