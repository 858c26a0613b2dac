"""The tables of a user: reading, checking, counting rows, and the windows of a cross-validation."""
