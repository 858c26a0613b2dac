"""The loop over steps and epochs, and validation."""
