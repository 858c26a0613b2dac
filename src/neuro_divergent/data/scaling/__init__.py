"""Scalers: per window inside the module, per series before training."""
