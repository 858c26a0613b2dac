"""The engine of a search: which trials come next, where they are trained, and what becomes of them."""
