"""Saved models: safetensors and JSON."""
