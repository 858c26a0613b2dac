"""Infers the format of an unknown file from its content. Each step returns its findings as plain data."""
