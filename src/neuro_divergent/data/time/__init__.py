"""Frequencies and seasons: steps of a calendar, and what a series shows of them."""
