"""Hierarchies of series and their aggregation."""
