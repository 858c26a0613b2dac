"""From flags and run files to descriptions and tables."""
