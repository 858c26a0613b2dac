"""Side-by-side measurements; each prints a ratio against a peer or a limit."""
