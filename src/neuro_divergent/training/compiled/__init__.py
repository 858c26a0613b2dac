"""Steps and networks compiled by torch."""
