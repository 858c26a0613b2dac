"""Train many small networks in one stacked computation."""
