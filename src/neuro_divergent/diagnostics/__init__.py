"""Diagnostics: what is wrong with a training, with figures that show it, and what to change."""
