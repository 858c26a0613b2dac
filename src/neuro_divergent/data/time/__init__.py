"""Frequencies (calendar steps) and season lengths."""
