"""The HTML report: one self-contained file that needs no network."""
