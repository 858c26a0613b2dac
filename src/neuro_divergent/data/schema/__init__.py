"""The columns of a table and their roles (DataSchema), and the report of loading it (DataReport)."""
