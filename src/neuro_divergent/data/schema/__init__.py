"""What a table is: its columns and their roles, and what loading it found."""
