"""Reading the form of a strange file out of the file itself: each step returns what it found as plain data."""
